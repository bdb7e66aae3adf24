/** Conditional disaggregation with `cost: time`: the two predicted times decide, once they are known. */
import { describe, expect, it } from 'vitest'

import { buildModel, PD, tokensFrom } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { DecisionRecord, RouterOptions } from '../index.ts'

const TOKENS = 400
const BOTH_LEGS = { prefillWorkerId: workerIdOf(1), decodeWorkerId: workerIdOf(2) }
const HERE = { backendWorkerId: workerIdOf(2) }

/** A prefill and a decode worker with this many measured requests: 1 ms per prompt token, 10 ms per step. */
function trained({ requests = 12, transferMs = 20, options = {} as RouterOptions } = {}) {
  const model = buildModel(PD, {
    cost: 'time',
    conditional: { enabled: true, effectiveIslThreshold: 0 },
    ...options,
  })
  let next = 1
  const send = (tokens = TOKENS, routing = {}) => {
    const { sent } = model.send(routing, tokensFrom(10_000 * next++, tokens))
    const [record] = model.router.explain(sent.requestId) ?? []
    return { call: lastCall(), note: record?.disaggregation ?? '' }
  }
  const lastCall = () => model.plane.call(model.plane.calls.length - 1)
  /** Sum over both legs, up to the first token. */
  const decodes = (tokens = TOKENS, movesMs = transferMs) => {
    const { call: prefill } = send(tokens, BOTH_LEGS)
    model.clock.advance(tokens)
    prefill.prefilled()
    model.clock.advance(movesMs + 10)
    lastCall().token()
    return lastCall()
  }
  const ends = (call: ReturnType<typeof lastCall>) => {
    model.clock.advance(100)
    for (let token = 0; token < 10; token++) call.token()
    call.finish()
  }
  for (let i = 0; i < requests; i++) ends(decodes(100 + 20 * i))
  return { ...model, send, decodes, ends, lastCall }
}

/** Totals and parts of both paths, as in the record. */
function timesIn(note: string) {
  const [here = '', apart = ''] = note.split(' here, ')
  const part = (text: string, name: string) => Number(new RegExp(`${name} (\\d+)`).exec(text)?.[1])
  return {
    here: { all: Number(/: (\d+) ms/.exec(here)?.[1]), prompt: part(here, 'prompt') },
    apart: {
      all: Number.parseInt(apart, 10),
      wait: part(apart, 'wait'),
      transfer: part(apart, 'transfer'),
    },
  }
}

/** Two candidates with these ids: a short and a long transfer, and costs that are the sums of their terms. */
function expectNearAndFar(record: DecisionRecord | undefined, ids: readonly string[]): void {
  const [near, far] = record?.candidates ?? []
  expect([near?.workerId, far?.workerId]).toEqual(ids)
  expect(near?.terms['transfer']).toBeLessThan(100)
  expect(far?.terms['transfer']).toBeGreaterThan(500)
  for (const candidate of [near, far]) {
    const sum = record?.terms
      .filter(({ role }) => role === 'add')
      .reduce((total, { name, weight }) => total + weight * (candidate?.terms[name] ?? 0), 0)
    expect(candidate?.cost).toBeCloseTo(sum ?? 0, 6)
  }
}

describe('PrefillRouter: conditional disaggregation by predicted times', () => {
  it('idle - the decode worker replies sooner than both legs, and the record has both times', () => {
    const { send, router } = trained()
    const { call, note } = send()
    expect(call.workerId).toBe('2')
    const parts = String.raw`\(wait \d+, prompt \d+, others \d+`
    const [here, apart] = [`${parts}\\)`, `${parts}, transfer \\d+, decode \\d+\\)`]
    expect(note).toMatch(
      new RegExp(
        `^aggregated: sooner: \\d+ ms ${here} here, \\d+ ms ${apart} with a prefill worker$`,
      ),
    )
    const { aggregatedBy } = router.status().disaggregation
    expect(aggregatedBy).toEqual({ 'conditional (predicted times)': 1 })
    const times = timesIn(note)
    expect(times.here.prompt).toBeGreaterThan(0.7 * TOKENS)
    expect(times.here.prompt).toBeLessThan(1.5 * TOKENS)
    expect(times.apart.all).toBeGreaterThan(times.here.all)
  })

  it('decode requests on the worker - their delay exceeds the transfer time: both legs', () => {
    const { send, decodes } = trained()
    for (let i = 0; i < 2; i++) decodes(20)
    const { call, note } = send()
    expect(call.workerId).toBe('1')
    expect(note).toMatch(/^disaggregated: later: /)
  })

  it('decode requests, but a slow KV transfer - the decode worker computes the prompt', () => {
    const { send, decodes } = trained({ transferMs: 4000 })
    for (let i = 0; i < 2; i++) decodes(20)
    const { call, note } = send()
    expect(call.workerId).toBe('2')
    expect(timesIn(note).apart.transfer).toBeGreaterThan(2000)
  })

  it('prompts queued on the prefill worker - count until it starts', () => {
    const { send, decodes } = trained()
    for (let i = 0; i < 2; i++) decodes(20)
    for (let i = 0; i < 4; i++) send(TOKENS, BOTH_LEGS)
    const { call, note } = send()
    expect(call.workerId).toBe('2')
    expect(timesIn(note).apart.wait).toBeGreaterThan(TOKENS)
  })

  it('decode workers with slow prefill - are rated by their own prompts', () => {
    const { send, clock, ends } = trained()
    for (let i = 0; i < 12; i++) {
      const { call } = send(100 + 20 * i, HERE)
      clock.advance(8 * (100 + 20 * i))
      call.token()
      ends(call)
    }
    const { call, note } = send()
    expect(call.workerId).toBe('1')
    expect(timesIn(note).here.prompt).toBeGreaterThan(4 * TOKENS)
  })

  it('thresholds that keep all prompts local - the other path is predicted as well', () => {
    const conditional = { enabled: true, effectiveIslThreshold: 1e6, effectiveIslRatioThreshold: 1 }
    const { send, clock, ends, decodes } = trained({ requests: 0, options: { conditional } })
    for (let i = 0; i < 12; i++) {
      const { call } = send(100 + 20 * i, HERE)
      clock.advance(100 + 20 * i)
      call.token()
      ends(call)
    }
    expect(send().call.workerId).toBe('2')
    for (let i = 0; i < 2; i++) decodes(20)
    expect(send().call.workerId).toBe('1')
  })

  it.each([
    ['too few first tokens have come', { requests: 7 }, 'disaggregated: long: 400 of 400'],
    ['enough have come', { requests: 8 }, 'aggregated: sooner: '],
    [
      'cost: blocks',
      {
        options: { cost: 'blocks', conditional: { enabled: true, effectiveIslThreshold: 0 } },
      } as const,
      'disaggregated: long: 400 of 400',
    ],
  ] as const)('%s - %o', (_, options, note) => {
    expect(trained(options).send().note).toContain(note)
  })

  it('decode workers with different transfer rates - each pair has its own rate', () => {
    const { send, decodes, router, clock, lastCall } = trained()
    router.fleet.workerJoined(card(3, 'decode'))
    for (let i = 0; i < 12; i++) {
      send(100 + 20 * i, { ...BOTH_LEGS, decodeWorkerId: workerIdOf(3) }).call.prefilled()
      clock.advance(4000)
      lastCall().token()
      lastCall().finish()
      decodes(100 + 20 * i).finish()
    }
    const transferTo = (id: number) =>
      timesIn(send(TOKENS, { decodeWorkerId: workerIdOf(id) }).note).apart.transfer
    expect(transferTo(3)).toBeGreaterThan(2000)
    expect(transferTo(2)).toBeLessThan(100)
  })

  it('the decode guard - also applies to predicted times', () => {
    const conditional = { enabled: true, effectiveIslThreshold: 0, decodeBusyThreshold: 0.05 }
    const { note } = trained({ options: { conditional } }).send()
    expect(note).toMatch(/^disaggregated: decode worker is busy: 100 of 1000 blocks$/)
  })
})

describe('PrefillRouter: choice of the decode worker for a prefill worker', () => {
  const DECODE = [2, 3].map(workerIdOf)

  /** Two decode workers, the second with a slow transfer from the prefill worker. */
  function twoRates() {
    const { decodes, send, router, clock, lastCall, ends } = trained({
      options: { conditional: { enabled: false } },
    })
    router.fleet.workerJoined(card(3, 'decode'))
    for (let i = 0; i < 12; i++) {
      const { call } = send(100 + 20 * i, { ...BOTH_LEGS, decodeWorkerId: DECODE[1] })
      clock.advance(100 + 20 * i)
      call.prefilled()
      clock.advance(1000)
      lastCall().token()
      ends(lastCall())
      ends(decodes(100 + 20 * i))
    }
    /** The chosen decode worker, and both candidates in the record. */
    const place = () => {
      const sent = send(TOKENS)
      clock.advance(TOKENS)
      sent.call.prefilled()
      const { workerId, request } = lastCall()
      // A worker that never answers is full after a few requests.
      lastCall().token()
      return { to: workerId, record: router.explain(request.requestId)?.at(-1) }
    }
    return { place }
  }

  it('the nearer worker is chosen, and the record has both transfer costs', () => {
    const { place } = twoRates()
    const { record } = place()
    const places = Array.from({ length: 10 }, () => place().to)
    expect(places.filter((id) => id === '2').length).toBeGreaterThan(8)
    expect(record?.phase).toBe('decode')
    expectNearAndFar(record, ['2', '3'])
  })
})

describe('PrefillRouter: choice of the prefill worker by its transfer times', () => {
  const FAR = workerIdOf(3)

  /** Two prefill workers; transfers from the second one are slow. */
  function twoPrefills() {
    const { send, router, clock, lastCall, ends } = trained({
      requests: 0,
      options: { conditional: { enabled: false } },
    })
    router.fleet.workerJoined(card(3, 'prefill'))
    for (let i = 0; i < 40; i++) {
      const tokens = 100 + 20 * (i % 12)
      const isFar = i % 2 === 0
      const { call } = send(tokens, { ...BOTH_LEGS, ...(isFar ? { prefillWorkerId: FAR } : {}) })
      clock.advance(tokens)
      call.prefilled()
      clock.advance(isFar ? 1000 : 20)
      lastCall().token()
      ends(lastCall())
    }
    return { send, router, clock, ends, lastCall }
  }

  it('both are idle - the one with the faster transfer, and the record has both times', () => {
    const { send, router, clock, lastCall, ends } = twoPrefills()
    const places = Array.from({ length: 10 }, () => {
      const { call } = send(TOKENS)
      clock.advance(TOKENS)
      call.prefilled()
      clock.advance(30)
      lastCall().token()
      ends(lastCall())
      return call
    })
    expect(places.map(({ workerId }) => workerId)).toEqual(Array(10).fill('1'))
    const [record] = router.explain(places[0]!.request.requestId) ?? []
    expect(record?.phase).toBe('prefill')
    expectNearAndFar(record, ['1', '3'])
  })

  it('the nearer worker is busy - the remote one is chosen', () => {
    const { send } = twoPrefills()
    const places = Array.from({ length: 8 }, () => send(TOKENS).call.workerId)
    expect(places[0]).toBe('1')
    expect(places).toContain('3')
  })
})
