import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../sim/index.ts'
import { OtherFrontends } from './other-frontends.ts'
import type { FrontendNews } from './other-frontends.ts'
import { RequestLog } from './request-log.ts'

const facts = (requestId: string) =>
  ({
    requestId,
    model: 'm',
    endpoint: 'completions',
    streamed: true,
    traceparent: undefined,
  }) as const

function advance(clock: VirtualClock, ms: number): void {
  const untilMs = clock.nowMs() + ms
  clock.after(ms, () => undefined)
  while (clock.fireNext(untilMs));
}

/** Frontends that receive each other's messages, each message twice. */
function frontends(count: number) {
  const clock = new VirtualClock()
  const told: FrontendNews[] = []
  const all = Array.from({ length: count }, (_, i) => {
    const log = new RequestLog(clock)
    return {
      log,
      others: new OtherFrontends({
        clock,
        self: `f${i}`,
        log,
        requestsInFlight: () => i,
        decisionsOf: (id) => (id === `of-f${i}` ? { model: 'm', decisions: [i] } : null),
      }),
    }
  })
  for (const one of all) {
    const rest = all.filter((each) => each !== one).flatMap((each) => [each, each])
    one.others.shareWith({
      wanted: () => rest.forEach(({ others }) => others.wanted()),
      news: (news) => {
        told.push(news)
        for (const { others } of rest) others.learn(structuredClone(news))
      },
      asked: (asked) => rest.forEach(({ others }) => others.asked(asked)),
      told: (answer) => rest.forEach(({ others }) => others.told(answer)),
    })
  }
  const receive = (at: number, requestId: string): void =>
    all[at]?.log.observe({ kind: 'received', atMs: clock.nowMs() }, facts(requestId))
  return { clock, all, told, receive }
}

const idsOf = (log: RequestLog | undefined): readonly string[] =>
  (log?.latest(100) ?? []).map(({ requestId }) => requestId)

describe('OtherFrontends', () => {
  it('a reader - sees the sums and requests of all frontends, once each, whichever it asks', () => {
    const { clock, all, receive } = frontends(3)
    for (const [at, id] of [
      [0, 'a'],
      [1, 'b'],
      [2, 'c'],
    ] as const) {
      receive(at, id)
      advance(clock, 1)
    }
    for (const { others, log } of all) {
      others.look()
      expect(others.all()).toMatchObject({ frontends: 3, requestsInFlight: 0 + 1 + 2 })
      expect(others.all().sums.received).toBe(3)
      expect(idsOf(log)).toEqual(['c', 'b', 'a'])
    }
    expect(all[0]?.log.sums.received).toBe(1)
  })

  it('a change - is announced within a second while there are readers', () => {
    const { clock, all, receive, told } = frontends(2)
    const looking = all[0]
    looking?.others.look()
    receive(1, 'later')
    advance(clock, 999)
    expect(idsOf(looking?.log)).toEqual([])
    looking?.others.look()
    advance(clock, 1)
    expect(idsOf(looking?.log)).toEqual(['later'])
    advance(clock, 20_000)
    const count = told.length
    advance(clock, 60_000)
    expect(told).toHaveLength(count)
  })

  it('without readers - nothing is announced; a silent frontend no longer counts', () => {
    const { clock, all, told } = frontends(2)
    advance(clock, 60_000)
    expect(told).toEqual([])
    all[0]?.others.look()
    expect(all[0]?.others.all().frontends).toBe(2)
    all[1]?.others.close()
    advance(clock, 4_000)
    expect(all[0]?.others.all().frontends).toBe(2)
    advance(clock, 1)
    expect(all[0]?.others.all().frontends).toBe(1)
  })

  it('more requests than fit into one message - the newest are sent, later ones with the next message', () => {
    const { clock, all, receive } = frontends(2)
    for (let i = 0; i < 150; i++) {
      if (i % 50 === 0) advance(clock, 1_000)
      receive(1, `r${i}`)
    }
    all[0]?.others.look()
    expect(idsOf(all[0]?.log)).toHaveLength(100)
    expect(idsOf(all[0]?.log)).toContain('r149')
  })

  it('the decisions of a request - come from the frontend that made them, or from none', async () => {
    const { clock, all } = frontends(3)
    expect(await all[0]?.others.decisionsOf('of-f2')).toEqual({ model: 'm', decisions: [2] })
    const unknown = all[0]?.others.decisionsOf('of-nobody')
    advance(clock, 500)
    expect(await unknown).toBeNull()
  })

  it('a request that is asked for - comes with its phases, even if it was never announced', async () => {
    const { all, receive } = frontends(2)
    receive(1, 'of-f1')
    expect(all[0]?.log.find('of-f1')).toBeNull()
    await all[0]?.others.decisionsOf('of-f1')
    expect(all[0]?.log.find('of-f1')).toMatchObject({ requestId: 'of-f1', model: 'm' })
  })

  it.each([null, 5, {}, { from: 'x' }, { from: 'x', sums: {}, requests: 5 }])(
    '%j - is an invalid message',
    (body) => {
      const { all } = frontends(1)
      all[0]?.others.learn(body)
      expect(all[0]?.others.all().frontends).toBe(1)
    },
  )

  it('invalid numbers - count as zero, invalid requests are ignored', () => {
    const { all } = frontends(1)
    const [one] = all
    one?.others.learn({ from: 'x', sums: { received: 'many' }, requests: [null, { requestId: 1 }] })
    expect(one?.others.all()).toMatchObject({ frontends: 2, sums: { received: 0 } })
    expect(idsOf(one?.log)).toEqual([])
  })

  it('a frontend that sends invalid data - sums stay numbers, invalid requests are ignored', () => {
    const { all } = frontends(1)
    const one = all[0] ?? expect.fail('no frontend')
    const request = { requestId: 'r', startedEpochMs: 1, phases: [], end: null }
    for (const from of ['x', 'y', 'z']) {
      one.others.learn({
        from,
        sums: { received: 1e308, succeeded: -5, failed: NaN },
        requestsInFlight: 1e308,
        requests: [
          { ...request, phases: [null] },
          { ...request, phases: [{ kind: 1 }] },
          { ...request, startedEpochMs: 1e308 },
          null,
        ],
      })
    }
    const { sums, requestsInFlight } = one.others.all()
    expect(Number.isFinite(sums.received + requestsInFlight)).toBe(true)
    expect([sums.succeeded, sums.failed]).toEqual([0, 0])
    expect(one.log.find('r')).toBeNull()
  })
})
