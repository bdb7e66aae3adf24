import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'
import { BatonError } from '../base/index.ts'
import type { HttpCall, HttpReply, Middleware } from './index.ts'

const ok: HttpReply = { status: 299, headers: {}, body: 'from middleware' }

function start(...middleware: Middleware[]): ScriptedFrontend {
  return new ScriptedFrontend({ options: { middleware } })
}

function tag(name: string, order: string[]): Middleware {
  return {
    before: () => void order.push(`before ${name}`),
    after: (_, reply) => {
      order.push(`after ${name}`)
      return { ...reply, headers: { ...reply.headers, [`x-${name}`]: String(reply.status) } }
    },
  }
}

describe('middleware', () => {
  it('order - forward on the way in, reverse on the way out', async () => {
    const order: string[] = []
    const reply = await start(tag('a', order), tag('b', order)).send('GET', '/live', {})
    expect(order).toEqual(['before a', 'before b', 'after b', 'after a'])
    expect(reply.headers).toMatchObject({ 'x-a': '200', 'x-b': '200' })
  })

  it('a reply of `before` - nothing after it runs, and it has an id like every other reply', async () => {
    const order: string[] = []
    const it_ = start({ before: () => ok }, tag('late', order))
    const reply = await it_.chat()
    expect([reply.status, it_.runs.length]).toEqual([299, 0])
    expect(reply.headers['x-request-id']).toBeDefined()
    expect(order).toEqual(['after late'])
  })

  it('an error - has the format of the API, before a route is searched', async () => {
    const refuse: Middleware = {
      before: () => {
        throw new BatonError('request.unauthenticated', 'who are you?')
      },
    }
    const it_ = start(refuse)
    expect((await it_.chat()).json).toMatchObject({ error: { type: 'authentication_error' } })
    const anthropic = await it_.post('/v1/messages', {})
    expect(anthropic.json).toMatchObject({ type: 'error', error: { type: 'authentication_error' } })
    expect((await it_.send('GET', '/nowhere', {})).status).toBe(401)
  })

  it('an unexpected error - 500 without its text, and reported', async () => {
    const broken: Middleware = {
      before: () => {
        throw new Error('secret')
      },
    }
    const it_ = start(broken)
    const reply = await it_.chat()
    expect([reply.status, JSON.stringify(reply.json).includes('secret')]).toEqual([500, false])
    expect(it_.events.map(({ kind }) => kind)).toEqual(['faulted'])
  })

  it('a call - knows its route, who may call it and how much it may send', async () => {
    const seen: HttpCall[] = []
    const it_ = start({ before: (call) => void seen.push(call) })
    await it_.send('GET', '/metrics', {})
    await it_.send('GET', '/v1/models/some/name', {})
    await it_.send('GET', '/nowhere', {})
    expect(seen.map(({ route, name }) => [route?.access, route?.body, name])).toEqual([
      ['operator', 'none', ''],
      ['client', 'none', 'some/name'],
      [undefined, undefined, ''],
    ])
  })

  it('a caller who is no operator - reads health without names, and no decisions', async () => {
    const guest: Middleware = {
      before: (call) => {
        call.caller = { key: null, mayOperate: false, mayRoute: false }
        return undefined
      },
    }
    const health = await start(guest).send('GET', '/health', {})
    expect(Object.keys(health.json)).toEqual(['status', 'message'])
    expect(Object.keys((await start().send('GET', '/health', {})).json)).toContain('models')
  })
})

describe('x-request-id', () => {
  const echoOf = async (asked: string): Promise<string> => {
    const reply = await start().chat({}, { 'x-request-id': asked })
    return reply.headers['x-request-id'] ?? ''
  }

  it("the client's id - is returned, also when it cannot be the id of the request", async () => {
    expect(await echoOf('abc-1')).toBe('abc-1')
    expect(await echoOf('with blanks & signs')).toBe('with blanks & signs')
    expect(await echoOf('x'.repeat(512))).toBe('x'.repeat(512))
  })

  it.each(['', 'ü', 'caf\u00e9', 'a\u0000', 'x'.repeat(513), ' a'])(
    '%j - is invalid in a response header: the reply has an id of its own',
    async (asked) => {
      expect(await echoOf(asked)).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/)
    },
  )
})
