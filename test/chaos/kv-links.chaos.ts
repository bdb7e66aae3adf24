/**
 * Faults on the links over which decode workers pull KV from prefill workers: data is dropped (once for longer than
 * a pull may take), held back or delayed, while a real model (llama.cpp) answers new prompts. Each text must equal
 * that of an undisturbed server without hand-over.
 *
 * Each prefill worker listens on its own address and is published under another one, where a proxy stands before
 * each of its two ports; only the proxy of the KV port has faults. The seed is that of the other chaos run.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { seededRandom } from '../../src/base/index.ts'
import type { Random } from '../../src/base/index.ts'
import { FaultyProxy } from '../faulty-proxy.ts'
import { freePort } from '../free-port.ts'
import { startBaton, startServer } from '../running-server.ts'
import type { RunningBaton } from '../running-server.ts'
import { until } from '../until.ts'
import { ask } from './chaos-streams.ts'

const SEED = Number(process.env.BATON_TEST_CHAOS_SEED ?? 1 + Math.floor(Math.random() * 1e6))
const STREAMS = 200
const CONCURRENCY = 6
const ASKED = { max_tokens: 40, temperature: 0 }
const WORDS = 'amber birch cedar delta ember fjord grove heron inlet jetty'.split(' ')
const FAULTS = ['cut', 'hold', 'slow'] as const
const LASTS_MS = { least: 200, most: 2500 }
/**
 * Longer than a decode worker waits for KV (30 s), after which it computes the prompt itself. Once, from the
 * beginning.
 */
const LONG_MS = 33_000
/** If the decode worker has given up, the KV offer ends with its lease (60 s). */
const LEASE = { timeout: 75_000, interval: 100 }
/** Loopback addresses that no other run on this machine listens on. */
const NET = `127.${1 + (process.pid % 250)}`
/** State LISTEN in /proc/net/tcp. */
const LISTENING = '0A'

interface Worker {
  readonly baton: RunningBaton
  readonly adminPort: number
  readonly host: string
}

/** Prompts of about 250 tokens without a common prefix, so that the KV of each has to be transferred. */
function promptOf(index: number): string {
  return `Story ${index}. ${Array.from({ length: 90 }, (_, i) => WORDS[(index * 7 + i * i) % 10]).join(' ')}`
}

/** Ports with a listener on this address (`127.0.1.1`). */
function portsOf(address: string): readonly number[] {
  const wanted = address
    .split('.')
    .toReversed()
    .map((part) => Number(part).toString(16).padStart(2, '0'))
    .join('')
    .toUpperCase()
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local = '', , state]) => local.startsWith(`${wanted}:`) && state === LISTENING)
    .map(([, local = '']) => parseInt(local.slice(wanted.length + 1), 16))
}

async function startWorker(
  mode: string,
  folder: string,
  host: string,
  more: readonly string[] = [],
): Promise<Worker> {
  const adminPort = await freePort()
  const common = [
    '--discovery',
    `file:${folder}/fleet`,
    '--batching',
    'exact',
    '--grace-seconds',
    '0',
  ]
  const args = [
    'worker',
    '--mode',
    mode,
    ...common,
    '--admin-port',
    `${adminPort}`,
    '--worker-host',
    host,
    ...more,
  ]
  const baton = await startBaton(args, /ready/, { TMPDIR: folder })
  onTestFinished(() => void baton.process.kill('SIGKILL'))
  return { baton, adminPort, host }
}

/** A prefill worker that decode workers reach through the returned proxy. */
async function startPrefill(folder: string, place: number): Promise<Worker & { kv: FaultyProxy }> {
  const [host, known] = [`${NET}.81.${place}`, `${NET}.82.${place}`]
  const port = await freePort()
  const address = ['--worker-port', `${port}`, '--worker-advertise', known]
  const worker = await startWorker('prefill', folder, host, address)
  const [kvPort = expect.fail('it listens for no decode worker'), ...others] = portsOf(host).filter(
    (each) => each !== port && each !== worker.adminPort,
  )
  expect(others).toEqual([])
  const proxies = [port, kvPort].map((each) => FaultyProxy.start(each, host, known))
  const [requests, kv] = (await Promise.all(proxies)) as [FaultyProxy, FaultyProxy]
  onTestFinished(async () => {
    await Promise.all([requests.close(), kv.close()])
  })
  return { ...worker, kv }
}

async function sumOf(workers: readonly Worker[], name: string): Promise<number> {
  const texts = workers.map(async ({ host, adminPort }) =>
    (await fetch(`http://${host}:${adminPort}/metrics`)).text(),
  )
  const values = (await Promise.all(texts)).flatMap((text) => [
    ...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm')),
  ])
  return values.reduce((sum, [, value]) => sum + Number(value), 0)
}

type Counts = Record<(typeof FAULTS)[number], number>

async function disturb(
  links: readonly FaultyProxy[],
  random: Random,
  isOver: () => boolean,
): Promise<Counts> {
  const counts = { cut: 1, hold: 0, slow: 0 }
  const [first, ...others] = links
  let isLong = true
  first?.cut()
  const long = pause(LONG_MS).then(() => {
    first?.mend()
    isLong = false
  })
  for (let turn = 0; !isOver(); turn++) {
    const fault = FAULTS[turn % FAULTS.length] ?? 'cut'
    const places = isLong ? others : links
    const link = places[Math.floor(random.next() * places.length)]
    counts[fault] += 1
    if (fault === 'cut') link?.cut()
    else if (fault === 'hold') link?.hold()
    else link?.delay(5 + random.next() * 100)
    await pause(LASTS_MS.least + random.next() * (LASTS_MS.most - LASTS_MS.least))
    if (fault === 'cut') link?.mend()
    else if (fault === 'hold') link?.letGo()
    else link?.delay(0)
    await pause(random.next() * 400)
  }
  await long
  return counts
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}

async function textsAt(url: string): Promise<readonly string[]> {
  const texts: string[] = []
  let next = 0
  const client = async (): Promise<void> => {
    while (next < STREAMS) {
      const index = next++
      const { isWhole, text, raw } = await ask(url, promptOf(index), ASKED)
      texts[index] = isWhole ? text : `lost: ${raw.slice(-300)}`
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, client))
  return texts
}

it.skipIf(process.platform !== 'linux')(
  `seed ${SEED} - no text is wrong or lost, and no KV is held`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-chaos-kv-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const undisturbed = await startServer(['--aggregated', '1', '--batching', 'exact'])
    const rights = await textsAt(undisturbed.url)
    await undisturbed.stop()
    expect(rights.filter((text) => text.startsWith('lost'))).toEqual([])
    const prefill = await Promise.all([startPrefill(folder, 1), startPrefill(folder, 2)])
    const decode = await Promise.all([
      startWorker('decode', folder, '127.0.0.1'),
      startWorker('decode', folder, '127.0.0.1'),
    ])
    const where = ['--discovery', `file:${folder}/fleet`, '--port', '0']
    const frontend = await startBaton(['frontend', ...where], /http:\/\/[\d.]+:\d+/, {
      TMPDIR: folder,
    })
    onTestFinished(() => void frontend.process.kill('SIGKILL'))
    const url = /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
    await until('KV is taken over', async () => {
      await ask(url, `Before ${performance.now()} ${promptOf(0)}`, ASKED)
      return (await sumOf(decode, 'baton_worker_kv_bytes_pulled_total')) > 0
    })
    let isOver = false
    const startedMs = performance.now()
    const disturbing = disturb(
      prefill.map(({ kv }) => kv),
      seededRandom(SEED),
      () => isOver,
    )
    const texts = await textsAt(url)
    const seconds = (performance.now() - startedMs) / 1000
    isOver = true
    const faults = await disturbing
    const pulled = await sumOf(decode, 'baton_worker_kv_bytes_pulled_total')
    const recomputed = await sumOf(decode, 'baton_worker_kv_recomputed_total')
    const taken = await sumOf(decode, 'baton_worker_kv_pull_seconds_count')
    const figures = { seconds: Math.round(seconds), ...faults, taken, recomputed, pulled }
    process.stderr.write(`chaos: KV links, seed ${SEED}: ${JSON.stringify(figures)}\n`)
    expect(texts).toEqual(rights)
    expect([taken > STREAMS / 4, faults.cut > 1, recomputed > 0]).toEqual([true, true, true])
    const ofPrefill = async (name: string): Promise<number> => await sumOf(prefill, name)
    await expect.poll(() => ofPrefill('baton_worker_kv_offers_open'), LEASE).toBe(0)
    await expect.poll(() => ofPrefill('baton_worker_kv_held_bytes'), LEASE).toBe(0)
    for (const { baton } of [...prefill, ...decode]) {
      baton.process.kill('SIGTERM')
      expect(await baton.ended).toBe(0)
    }
  },
)
