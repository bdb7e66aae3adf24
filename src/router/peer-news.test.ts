import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../base/index.ts'
import type { EngineConfig } from '../request/index.ts'
import { buildModel, tokensFrom } from '../../test/router/model-fixture.ts'
import { card } from '../../test/router/scripted-plane.ts'
import type { RouterOptions } from './configuration/router-config.ts'
import { parsePeerNews } from './load/peer-news.ts'
import type { PeerNews } from './load/peer-news.ts'

/** Two frontends of one fleet; each receives the other's messages at once, as JSON. */
function twoFrontends(workers: number, config: RouterOptions, engine: Partial<EngineConfig> = {}) {
  const cards = Array.from({ length: workers }, (_, index) =>
    card(index + 1, 'agg', { engine, publishesKvEvents: false }),
  )
  const told: PeerNews[] = []
  const hear = (to: () => ReturnType<typeof buildModel>) => (news: PeerNews) => {
    told.push(news)
    const heard = parsePeerNews(JSON.parse(JSON.stringify(news)))
    if (heard === null) throw new Error('news that cannot be read')
    to().router.learn(heard)
  }
  const first: ReturnType<typeof buildModel> = buildModel(
    cards,
    config,
    hear(() => second),
  )
  const second: ReturnType<typeof buildModel> = buildModel(
    cards,
    config,
    hear(() => first),
  )
  return { first, second, told }
}

const workerOf = (frontend: ReturnType<typeof buildModel>, nth: number) =>
  frontend.plane.calls[nth]?.workerId

describe('routers of several frontends - sessions', () => {
  const config: RouterOptions = { mode: 'round-robin', session: { ttlSeconds: 60 } }

  it('a session - goes to its worker from every frontend', () => {
    const { first, second } = twoFrontends(3, config)
    first.send({ sessionId: 's' })
    const bound = workerOf(first, 0)
    for (let ask = 0; ask < 4; ask++) second.send({ sessionId: 's' })
    expect(second.plane.calls.map(({ workerId }) => workerId)).toEqual([bound, bound, bound, bound])
  })

  it('a binding in use at one frontend - does not expire at the other', () => {
    const { first, second } = twoFrontends(3, config)
    for (let minute = 0; minute < 5; minute++) {
      first.send({ sessionId: 's' })
      first.plane.calls.at(-1)?.finish()
      for (const { clock } of [first, second]) clock.advance(45_000)
    }
    second.send({ sessionId: 's' })
    expect(workerOf(second, 0)).toBe(workerOf(first, 0))
  })

  it('a session that is closed or fails - is unbound everywhere', () => {
    const { first, second } = twoFrontends(3, config)
    first.send({ sessionId: 's' })
    first.send({ sessionId: 's', sessionAction: 'close' })
    for (const call of first.plane.calls) call.finish()
    expect(second.router.status().sessions).toBe(0)
  })

  it('a frontend that joins late - knows all bindings after the others have repeated them', () => {
    const { first, told } = twoFrontends(3, config)
    for (const sessionId of ['a', 'b', 'c']) first.send({ sessionId })
    told.length = 0
    first.router.tellPeers()
    expect(told.map((news) => news.kind === 'session' && news.sessionId)).toEqual(['a', 'b', 'c'])
  })
})

describe('routers of several frontends - workers without events', () => {
  it('a prompt sent by one frontend - counts as cached for the other', () => {
    const { first, second } = twoFrontends(3, { mode: 'kv' }, { kvCacheBlockSize: 16 })
    first.send({}, 256)
    second.send({}, 256)
    expect(workerOf(second, 0)).toBe(workerOf(first, 0))
  })
})

describe('routers of several frontends - prompts that are not computed yet', () => {
  const config: RouterOptions = { mode: 'kv', cost: 'time' }
  const engine = { kvCacheBlockSize: 16 }

  it('a prompt that one has sent - the other chooses another worker, until it is computed', () => {
    const { first, second, told } = twoFrontends(2, config, engine)
    first.send({}, 4096)
    const busy = workerOf(first, 0)
    expect(told.filter(({ kind }) => kind === 'sent')).toHaveLength(1)
    second.send({}, tokensFrom(1_000_000, 512))
    expect(workerOf(second, 0)).not.toBe(busy)
    first.plane.calls[0]?.token()
    expect(told.at(-1)).toMatchObject({ kind: 'running', workerId: busy })
    const { ranks } = second.router.status().decode
    expect(ranks.reduce((sum, { activeRequests }) => sum + activeRequests, 0)).toBe(1)
  })

  it('a request that runs at one - the other knows its load until it ends', () => {
    const { first, second, told } = twoFrontends(2, config, engine)
    first.send({}, 4096)
    const busy = workerOf(first, 0)
    const [call] = first.plane.calls
    call?.token()
    for (let i = 0; i < 8; i++) {
      second.send({}, tokensFrom(1_000_000 * (i + 1), 64))
      second.plane.calls[i]?.token()
      second.plane.calls[i]?.finish()
    }
    expect(second.plane.calls.map(({ workerId }) => workerId)).not.toContain(busy)
    call?.finish()
    expect(told.at(-1)).toMatchObject({ kind: 'ended', workerId: busy })
  })

  it('cost: blocks - no messages about prompts', () => {
    const { first, told } = twoFrontends(2, { mode: 'kv', cost: 'blocks' }, engine)
    first.send({}, 4096)
    first.plane.calls[0]?.token()
    expect(told.filter(({ kind }) => kind !== 'routed')).toEqual([])
  })

  it('no other frontend is known - no messages about prompts', () => {
    const told: PeerNews[] = []
    const alone = buildModel([card(1)], config, (news) => told.push(news), { listens: () => false })
    alone.send({}, 4096)
    alone.plane.calls[0]?.token()
    expect(told).toEqual([])
  })
})

describe('parsePeerNews', () => {
  const session = { kind: 'session', pool: 'decode', sessionId: 's', target: null, idleMs: 1 }
  const flow = { kind: 'flow', pool: 'decode', from: 7, arrived: 3, gone: 2, ended: 1 }
  const routed = {
    kind: 'routed',
    pool: 'prefill',
    workerId: workerIdOf(1),
    dpRank: 0,
    sequence: [1, 2],
  }

  const sent = {
    kind: 'sent',
    pool: 'decode',
    workerId: workerIdOf(1),
    dpRank: 0,
    promptTokens: 100,
    uncachedTokens: 40,
  }

  const served = { requests: 2, contextTokens: 600, outputTokens: 60, stepMs: 8, itlMs: 9 }

  it.each([
    session,
    sent,
    { ...sent, kind: 'running', first: { elapsedMs: 30, waitMs: 0, stepMs: 10 } },
    { ...sent, kind: 'ended', served },
    { ...session, target: { workerId: '1', dpRank: null } },
    routed,
    { ...routed, sequence: Array.from({ length: 4096 }, () => 0xffff_ffff) },
    flow,
  ])('%j - is believed', (news) => expect(parsePeerNews(news)).toEqual(news))

  it.each([
    null,
    [],
    'news',
    { ...session, pool: 'other' },
    { ...session, kind: 'other' },
    { ...session, sessionId: 1 },
    { ...session, idleMs: -1 },
    { ...session, idleMs: Infinity },
    { ...session, target: {} },
    { ...session, target: { workerId: '1', dpRank: 0.5 } },
    { ...sent, uncachedTokens: 101 },
    { ...sent, promptTokens: 2 ** 40 },
    { ...sent, promptTokens: 1.5 },
    { ...sent, workerId: 7 },
    { ...sent, first: { elapsedMs: 30, waitMs: 0 } },
    { ...sent, first: { elapsedMs: 2 ** 41, waitMs: 0, stepMs: 0 } },
    { ...sent, kind: 'ended', served: { ...served, stepMs: -1 } },
    { ...sent, kind: 'ended', served: [] },
    { ...routed, dpRank: -1 },
    { ...flow, from: 'a' },
    { ...flow, arrived: -1 },
    { ...flow, ended: 0.5 },
    { ...routed, sequence: [1] },
    { ...routed, sequence: [1, 2 ** 32] },
    { ...routed, sequence: Array.from({ length: 4098 }, () => 0) },
  ])('%j - is not', (news) => expect(parsePeerNews(news)).toBeNull())
})
