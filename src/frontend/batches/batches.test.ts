import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../../test/frontend/scripted-frontend.ts'
import { VirtualClock } from '../../sim/index.ts'
import { BatonError } from '../../base/index.ts'
import { OPEN_CALLER } from '../access/caller.ts'
import { tenantRouting } from '../access/tenant-rules.ts'
import { BatchGate, hasPlace } from './batch-gate.ts'
import type { ModelLoad } from './batch-gate.ts'
import { BatchSignal } from './batch-signal.ts'
import { byteLines } from './byte-lines.ts'
import { attemptAfterMs } from './line-retry.ts'

const rank = (activeRequests: number, reportedRequests = 0) => ({
  activeRequests,
  reportedRequests,
})
const pool = (ranks: readonly object[], queuedRequests = 0) => ({ ranks, queuedRequests })

function load(places: number, decode: object, prefill: object = pool([])): ModelLoad {
  const state = (prefill as { ranks: unknown[] }).ranks.length > 0 ? 'active' : 'pending'
  const status = { decode, prefill, disaggregation: { state } }
  return { places, status: status as unknown as ModelLoad['status'] }
}

describe('when a request of a batch may start', () => {
  it.each([
    ['one of eight places stays free', load(8, pool([rank(6)])), 6, true],
    ['at that bound', load(8, pool([rank(7)])), 7, false],
    ['what the worker reports counts as well', load(8, pool([rank(0, 7)])), 0, false],
    ['what has begun and is not booked yet counts', load(8, pool([rank(0)])), 7, false],
    ['somebody waits', load(8, pool([rank(0)], 1)), 0, false],
    ['a single place', load(1, pool([rank(0)])), 0, true],
    ['a single place that is taken', load(1, pool([rank(1)])), 0, false],
    ['places that nobody knows', load(Infinity, pool([rank(500)])), 500, true],
    ['a prefill worker has nothing to do', load(8, pool([rank(1)]), pool([rank(0)])), 1, true],
    ['every prefill worker computes', load(8, pool([rank(0)]), pool([rank(1)])), 1, false],
    ['the free one is meant already', load(8, pool([rank(0)]), pool([rank(0)])), 1, false],
    ['somebody waits for prefill', load(8, pool([rank(0)]), pool([rank(0)], 1)), 0, false],
  ])('%s', (_name, of, inside, isOpen) => {
    expect(hasPlace(of, inside)).toBe(isOpen)
  })

  it('the gate opens when a slot becomes free, and not for a request that was aborted', async () => {
    const clock = new VirtualClock()
    let running = 8
    const gate = new BatchGate(clock, () => load(8, pool([rank(running)])), 4)
    const gone = new BatchSignal()
    const left = gate.enter('m', gone)
    const entered = gate.enter('m', new BatchSignal())
    gone.abort()
    expect(await left).toBe(false)
    running = 0
    await clock.run(clock.nowMs() + 100)
    expect(await entered).toBe(true)
  })

  it('it admits no more than its own limit', async () => {
    const gate = new BatchGate(new VirtualClock(), () => undefined, 2)
    const signal = new BatchSignal()
    expect([await gate.enter('m', signal), await gate.enter('n', signal)]).toEqual([true, true])
    const third = gate.enter('m', signal)
    gate.leave('n')
    expect(await third).toBe(true)
  })
})

describe('retry of a failed line', () => {
  const error = (code: BatonError['code'], data = {}) => new BatonError(code, 'x', { data })
  it.each([
    ['a refusal stays', error('request.invalid_argument'), 1, false, null],
    ['capacity is waited for', error('capacity.exhausted'), 99, false, 30_000],
    ['as long as it is said', error('capacity.exhausted', { retryAfterMs: 700 }), 1, false, 700],
    ['no worker is there', error('backend.worker_unavailable'), 99, false, 30_000],
    [
      'what breaks workers is asked so often',
      error('transport.disconnected', { stage: 'decode' }),
      4,
      false,
      8000,
    ],
    ['and not more', error('transport.disconnected', { stage: 'decode' }), 5, false, null],
    ['a model that may still come', error('request.not_found'), 1, true, 1000],
    ['a model that does not', error('request.not_found'), 1, false, null],
  ])('%s', (_name, of, attempt, isYoung, ms) => {
    expect(attemptAfterMs(of, attempt, isYoung)).toBe(ms)
  })
})

describe('a background request', () => {
  it('is served last, whatever its priority field says', () => {
    const caller = { ...OPEN_CALLER, isBackground: true }
    expect(tenantRouting(caller, { priority: 9, strictPriority: 9 })).toEqual({
      priority: -1,
      strictPriority: -1,
    })
    expect(tenantRouting(OPEN_CALLER, { priority: 9 })).toEqual({ priority: 9 })
  })
})

describe('byteLines', () => {
  const linesOf = async (pieces: readonly string[], max = 100) => {
    const lines: string[] = []
    async function* bytes() {
      for (const piece of pieces) yield await Promise.resolve(new TextEncoder().encode(piece))
    }
    for await (const line of byteLines(bytes(), max)) lines.push(new TextDecoder().decode(line))
    return lines
  }
  it('lines are the same wherever the pieces are cut', async () => {
    const text = 'one\n\nzwölf\nend'
    for (let cut = 0; cut <= text.length; cut++) {
      expect(await linesOf([text.slice(0, cut), text.slice(cut)])).toEqual([
        'one',
        '',
        'zwölf',
        'end',
      ])
    }
  })
  it('lines are bounded', async () => {
    expect(await linesOf(['abc', 'd\n'], 4)).toEqual(['abcd'])
    await expect(linesOf(['abc', 'de\n'], 4)).rejects.toMatchObject({
      code: 'request.payload_too_large',
    })
    await expect(linesOf(['abcde'], 4)).rejects.toMatchObject({
      code: 'request.payload_too_large',
    })
  })
})

describe('without a folder', () => {
  it.each([
    ['POST', '/v1/files'],
    ['GET', '/v1/files'],
    ['GET', '/v1/files/file-1'],
    ['POST', '/v1/batches'],
    ['GET', '/v1/batches/batch_1'],
    ['POST', '/v1/batches/batch_1/cancel'],
  ])('%s %s - 501 that names the missing option', async (method, path) => {
    const { status, json } = await new ScriptedFrontend().send(method, path, {})
    expect(status).toBe(501)
    expect(JSON.stringify(json)).toContain('--files-dir')
  })
})
