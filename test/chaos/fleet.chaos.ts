/**
 * 1,000 streams with known text over 3 frontends, 4 decode and 2 prefill workers that meet on a real nats-server.
 * Meanwhile workers, frontends and NATS are killed, stopped and partitioned, and links between frontends and
 * workers are cut, held and slowed down.
 *
 * The seed is printed; `BATON_TEST_CHAOS_SEED=N npm run test:chaos` draws the same list of faults again
 * (chaos-faults.ts says how far a run repeats), and `BATON_TEST_CHAOS_STREAMS=N` changes the number of streams. Faults begin during at most one minute, with at least one of each
 * kind; the rest of the run is undisturbed, so its duration is bounded.
 */
import { existsSync, readdirSync } from 'node:fs'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { describe, expect, it, onTestFailed, onTestFinished } from 'vitest'
import { seededRandom } from '../../src/base/index.ts'
import { NATS_VERSION } from '../nats/nats-server.ts'
import { startServer } from '../running-server.ts'
import { until } from '../until.ts'
import { ChaosFaults, FAULTS } from './chaos-faults.ts'
import { ChaosFleet } from './chaos-fleet.ts'
import { ask, promptOf, runStreams } from './chaos-streams.ts'

const SEED = Number(process.env.BATON_TEST_CHAOS_SEED ?? 1 + Math.floor(Math.random() * 1e6))
const STREAMS = Number(process.env.BATON_TEST_CHAOS_STREAMS ?? 1000)
const CONCURRENCY = 32
const FAULTS_MS = 60_000
const STEP_MS = 60_000
const LISTED_MS = 5_000
const BOOKED =
  /^baton_frontend_(?:inflight_requests|worker_active_decode_blocks|worker_active_prefill_tokens)(?:\{.*\})? (\S+)$/gm

function say(text: string): void {
  process.stderr.write(`chaos: ${text}\n`)
}

/** Other programs may create and delete files there meanwhile. */
function inSharedMemory(): readonly string[] {
  if (!existsSync('/dev/shm')) return []
  return readdirSync('/dev/shm').filter((name) => /baton/i.test(name))
}

/** The answer of an undisturbed server without hand-over to each prompt. */
async function rightTexts(): Promise<readonly string[]> {
  const server = await startServer(['--engine', 'sim', '--sim-speedup', '0', '--aggregated', '1'])
  try {
    const texts: string[] = []
    for (let index = 0; index < STREAMS; index++) {
      const reply = await ask(server.url, promptOf(index))
      if (!reply.isWhole) throw new Error(`no right text: ${reply.raw.slice(-400)}`)
      texts.push(reply.text)
    }
    return texts
  } finally {
    await server.stop()
  }
}

/**
 * The worker cards in all buckets of the NATS server. The client library lists the keys of a bucket by a consumer, and
 * waits forever for a key that is deleted meanwhile; then another attempt is needed.
 */
async function cardsIn(port: number): Promise<readonly string[]> {
  const connection = await connect({ servers: `127.0.0.1:${port}`, maxReconnectAttempts: 0 })
  let isLate = false
  const late = setTimeout(() => {
    isLate = true
    void connection.close()
  }, LISTED_MS)
  try {
    const manager = new Kvm(connection)
    const cards: string[] = []
    for await (const { bucket } of manager.list()) {
      const opened = await manager.open(bucket)
      for await (const key of await opened.keys()) cards.push(`${bucket}/${key}`)
    }
    return isLate ? ['the buckets were not listed in time'] : cards
  } catch (thrown) {
    if (isLate) return ['the buckets were not listed in time']
    throw thrown
  } finally {
    clearTimeout(late)
    await connection.close()
  }
}

/** A step that never ends fails by its name, before the whole test times out. */
async function within<T>(what: string, step: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`never: ${what}`)), STEP_MS)
  })
  try {
    return await Promise.race([step, late])
  } finally {
    clearTimeout(timer)
  }
}

async function bookedAt(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return [...text.matchAll(BOOKED)].reduce((sum, match) => sum + Number(match[1]), 0)
}

describe.skipIf(NATS_VERSION === null)('a fleet under chaos', () => {
  it(`seed ${SEED} - no stream is wrong or lost, and nothing is leaked`, async () => {
    say(`seed ${SEED}, ${NATS_VERSION ?? ''}`)
    const rights = await rightTexts()
    expect(new Set(rights).size).toBe(STREAMS)
    const sharedBefore = inSharedMemory()
    const fleet = await ChaosFleet.start()
    onTestFinished(() => fleet.close())
    onTestFailed(() => {
      for (const { kind, baton } of fleet.members) say(`${kind}: ${baton.printed().slice(-600)}`)
    })
    await until('a stream is served', async () => {
      const [first] = fleet.of('frontend')
      return (await ask(first?.url ?? '', promptOf(0))).isWhole
    })
    const faults = new ChaosFaults(fleet, seededRandom(SEED))
    let isOver = false
    const startedMs = performance.now()
    const isLate = (): boolean => performance.now() - startedMs > FAULTS_MS
    const hasAll = (): boolean => Object.keys(faults.counts).length === new Set(FAULTS).size
    const chaos = faults.runUntil(() => (isOver || isLate()) && hasAll())
    const outcome = await runStreams(rights, CONCURRENCY, fleet)
    const seconds = (performance.now() - startedMs) / 1000
    isOver = true
    await chaos
    say(`${STREAMS} streams in ${seconds.toFixed(1)} s: ${JSON.stringify(outcome)}`)
    say(`faults: ${JSON.stringify(faults.counts)}`)
    expect(fleet.startFaults).toEqual([])
    for (const { url } of fleet.of('frontend'))
      await within(
        `nothing is booked at ${url}`,
        until(`nothing is booked at ${url}`, async () => (await bookedAt(url)) === 0),
      )
    const workers = await within('workers end', fleet.stop('decode', 'prefill'))
    expect(workers).toEqual(Array.from({ length: 6 }, () => 0))
    await within(
      'the buckets are empty',
      until('the buckets are empty', async () => (await cardsIn(fleet.nats.port)).length === 0),
    )
    expect(await within('frontends end', fleet.stop('frontend'))).toEqual([0, 0, 0])
    expect(fleet.remains()).toEqual([])
    expect(inSharedMemory().filter((name) => !sharedBefore.includes(name))).toEqual([])
    expect(Object.keys(faults.counts).toSorted()).toEqual([...new Set(FAULTS)].toSorted())
    expect(outcome).toMatchObject({ right: STREAMS, wrong: 0, lost: 0, faults: [] })
  })
})
