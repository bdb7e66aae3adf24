import { describe, expect, it } from 'vitest'
import { RequestContext } from './generate-context.ts'

describe('RequestContext', () => {
  it('stop and kill - are distinguished, end a wait once, and persist', () => {
    const context = new RequestContext('a')
    let ended = 0
    context.signal.addEventListener('abort', () => ended++)
    expect([context.requestId, context.isStopped, context.isKilled]).toEqual(['a', false, false])
    context.stop()
    expect([context.isStopped, context.isKilled, ended]).toEqual([true, false, 1])
    context.kill()
    context.stop()
    expect([context.isStopped, context.isKilled, ended]).toEqual([true, true, 1])
  })

  it('kill alone - also stops', () => {
    const context = new RequestContext('a')
    context.kill()
    expect([context.isStopped, context.isKilled, context.signal.aborted]).toEqual([
      true,
      true,
      true,
    ])
  })

  it('the first token - is reported once, however often it is announced', () => {
    let told = 0
    const context = new RequestContext('a', () => told++)
    expect(context.hasFirstToken).toBe(false)
    context.notifyFirstToken()
    context.notifyFirstToken()
    expect([context.hasFirstToken, told]).toEqual([true, 1])
  })
})
