import { expect, it, onTestFinished, vi } from 'vitest'
import { ScriptedFrontend } from '../../../test/frontend/scripted-frontend.ts'
import { encodePlain } from '../../wire/index.ts'
import { PeerSharing } from './peer-sharing.ts'
import { WorkerPeers } from './worker-peers.ts'

/** Starts a frontend whose peer channel is driven by the test alone. */
function start() {
  const { frontend } = new ScriptedFrontend()
  onTestFinished(() => frontend.close())
  const listeners = new Map<string, (body: unknown) => void>()
  const said: string[] = []
  const bad: string[] = []
  const sharing = new PeerSharing()
  const channel = {
    tell: (topic: string) => void said.push(topic),
    onTold: (topic: string, listener: (body: unknown) => void) =>
      void listeners.set(topic, listener),
  }
  sharing.start([channel], frontend, (topic) => bad.push(topic))
  const hear = (topic: string, body: unknown): void => listeners.get(topic)?.(body)
  return { frontend, sharing, said, bad, hear }
}

const NONSENSE = [
  null,
  5,
  'text',
  [],
  {},
  { kind: 'parked' },
  { kind: 'parked', card: { workerId: 5 } },
  { kind: 'weight', model: '', version: 'v', weight: 1 },
  { kind: 'weight', model: 'x'.repeat(300), version: 'v', weight: 1 },
  { kind: 'weight', model: 'made-up', version: 'v', weight: NaN },
  { model: {}, version: [], news: { kind: 'routed', pool: 'decode' } },
  { from: 'x', sums: [], requests: {} },
]

it('invalid peer messages - are ignored and reported once, on every topic', () => {
  const { frontend, bad, hear } = start()
  const topics = 'looked seen explain explained news admin key wanted'.split(' ')
  for (const topic of topics) for (const body of NONSENSE) hear(topic, body)
  expect(bad).toEqual(['admin'])
  expect(frontend.registry.families.map(({ name }) => name)).toEqual(['storyteller'])
})

it('an invalid peer message every second - is reported once a minute', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { bad, hear } = start()
  const reports = Array.from({ length: 122 }, () => {
    hear('admin', { kind: 'parked', card: { workerId: 5 } })
    vi.advanceTimersByTime(1_000)
    return bad.length
  })
  expect([0, 59, 60, 119, 120].map((second) => reports[second])).toEqual([1, 1, 2, 2, 3])
})

it('a message that arrives over two channels - is applied once', () => {
  const { frontend, hear } = start()
  const { router, name, version } = frontend.registry.models[0]!
  const learn = vi.spyOn(router, 'learn')
  const news = { kind: 'session', pool: 'decode', sessionId: 's', target: null, idleMs: 1 }
  for (const id of ['a 1', 'a 1', 'a 2', undefined, undefined])
    hear('news', { model: name, version, news, id })
  expect(learn).toHaveBeenCalledTimes(4)
})

it('messages about every prompt - are sent if another frontend was heard within a minute, else once in five seconds', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  expect(new PeerSharing().isHeard).toBe(false)
  const { sharing, hear } = start()
  expect([sharing.isHeard, sharing.isHeard]).toEqual([true, false])
  vi.advanceTimersByTime(5_001)
  expect([sharing.isHeard, sharing.isHeard]).toEqual([true, false])
  hear('wanted', null)
  vi.advanceTimersByTime(50_000)
  expect([sharing.isHeard, sharing.isHeard]).toEqual([true, true])
  vi.advanceTimersByTime(11_000)
  expect([sharing.isHeard, sharing.isHeard]).toEqual([true, false])
})

it('weights for models without workers - are kept up to a limit and do not displace those of others', () => {
  const { frontend, hear } = start()
  for (let i = 0; i < 5_000; i++)
    hear('admin', { kind: 'weight', model: `made-up-${i}`, version: 'v', weight: 1 })
  for (let i = 0; i < 5_000; i++)
    hear('admin', { kind: 'weight', model: 'storyteller', version: `v${i}`, weight: 1 })
  const { families } = frontend.registry
  expect(families.length).toBeLessThanOrEqual(1_024)
  for (const { toldWeights } of families) expect(toldWeights.size).toBeLessThanOrEqual(64)
})

it('a thousand requests for the full state - are answered at once and then once a second', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { said, hear } = start()
  hear('admin', { kind: 'weight', model: 'storyteller', version: 'v', weight: 1 })
  const tellings = () => said.filter((topic) => topic === 'admin').length
  for (let i = 0; i < 1_000; i++) hear('wanted', null)
  expect(tellings()).toBe(1)
  vi.advanceTimersByTime(999)
  expect(tellings()).toBe(1)
  vi.advanceTimersByTime(2)
  expect(tellings()).toBe(2)
  vi.advanceTimersByTime(5_000)
  expect(tellings()).toBe(2)
})

it('invalid peer messages relayed by a worker - do not close the connection to it', () => {
  const { sharing, bad } = start()
  const peers = new WorkerPeers(() => 0)
  const take = (payload: Uint8Array): void =>
    sharing.attempt('over a worker', () => peers.take(payload))
  const told: unknown[] = []
  peers.onTold('news', (body) => told.push(body))
  take(Uint8Array.of(0xc1, 0xff))
  take(encodePlain({ id: 'x'.repeat(5_000), topic: 'news', body: 1 }, 'a test'))
  expect([bad, told]).toEqual([['over a worker'], []])
})
