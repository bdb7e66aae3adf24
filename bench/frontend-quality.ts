/**
 * Whether several frontends route as well as one: the same requests at the same times to 1, 2 and 4 `baton frontend`
 * processes with the same number of new simulated workers; prints reuse (share of prompt tokens found cached) and TTFT.
 *
 *   npm run build && npx tsx bench/frontend-quality.ts [--frontends 1,2,4] [--requests 300] [--rate 8] [--workers 4]
 *     [--speedup 0.5] [--way file|nats] [--events on|off] [--mode agg|pd] [--warm 40] [--rounds 1]
 *
 * The simulated engines run at half speed, and the load is moderate. So the machine has time left and the CPU time of
 * the frontends hardly affects the comparison; `cpu` is the share of the machine that was used. Each frontend is warmed
 * with `--warm` requests that are not counted, because a frontend that has just started compiles its code. Requests go
 * to the frontends in turn, each over a new connection, as with a load balancer. `--way file`: frontends exchange
 * messages over the connections to workers.
 *
 * A few requests that a busy machine delays by half a second change the mean. `stalls` is the longest time for which
 * this program itself was stopped: above about 20 ms the means of the run reflect the machine instead of the routing.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { join } from 'node:path'
import { seededRandom } from '../src/base/index.ts'
import { startBaton } from '../test/running-server.ts'
import type { RunningBaton } from '../test/running-server.ts'
import { NatsServer } from '../test/nats/nats-server.ts'
import { until } from '../test/until.ts'
import { readOptions } from './load/options.ts'
import { median } from './load/summary.ts'

const { values } = readOptions({
  options: {
    frontends: { type: 'string', default: '1,2,4' },
    requests: { type: 'string', default: '300' },
    rate: { type: 'string', default: '8' },
    workers: { type: 'string', default: '4' },
    speedup: { type: 'string', default: '0.5' },
    way: { type: 'string', default: 'file' },
    events: { type: 'string', default: 'on' },
    mode: { type: 'string', default: 'agg' },
    warm: { type: 'string', default: '40' },
    rounds: { type: 'string', default: '1' },
  },
})
const requestCount = Number(values.requests)
const workerCount = Number(values.workers)
const GROUPS = 24
/** Blocks of a worker's cache: not all groups fit into one worker. */
const KV_BLOCKS = '1024'

interface Planned {
  readonly atMs: number
  readonly prompt: string
}

interface Outcome {
  readonly ttftMs: number
  readonly promptTokens: number
  readonly cachedTokens: number
}

/** Conversations of a few groups with long common beginnings; Poisson arrivals. */
function plan(seed: number): readonly Planned[] {
  const random = seededRandom(seed)
  const words = (count: number): string =>
    Array.from({ length: count }, () => `w${Math.floor(random.next() * 5_000)}`).join(' ')
  const beginnings = Array.from({ length: GROUPS }, () => words(250))
  let atMs = 0
  return Array.from({ length: requestCount }, () => {
    atMs += (-Math.log(1 - random.next()) * 1000) / Number(values.rate)
    const group = Math.floor(random.next() ** 2 * GROUPS)
    return { atMs, prompt: `${beginnings[group]} ${words(20)}` }
  })
}

/** Half of the workers compute prompts with `--mode pd`. */
function modeOf(worker: number): string {
  if (values.mode === 'agg') return 'agg'
  return 2 * worker < workerCount ? 'prefill' : 'decode'
}

/** Milliseconds for which the machine's cores were busy since it started. */
function machineMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys, 0)
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function ask(url: string, prompt: string): Promise<Outcome> {
  const startedMs = performance.now()
  const reply = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({
      prompt,
      max_tokens: 24,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    }),
  })
  if (reply.status !== 200 || reply.body === null) throw new Error(await reply.text())
  let [ttftMs, text] = [0, '']
  const decoder = new TextDecoder()
  for await (const bytes of reply.body) {
    if (ttftMs === 0) ttftMs = performance.now() - startedMs
    text += decoder.decode(bytes as Uint8Array, { stream: true })
  }
  const [, prompted] = /"prompt_tokens":(\d+)/.exec(text) ?? []
  const [, cached = '0'] = /"cached_tokens":(\d+)/.exec(text) ?? []
  if (prompted === undefined) throw new Error(`no usage: ${text.slice(-300)}`)
  return { ttftMs, promptTokens: Number(prompted), cachedTokens: Number(cached) }
}

async function run(
  frontendCount: number,
  planned: readonly Planned[],
): Promise<{ readonly outcomes: readonly Outcome[]; readonly cpu: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'baton-quality-'))
  const nats = values.way === 'nats' ? await NatsServer.start() : null
  const place = ['--discovery', nats?.url ?? `file:${folder}`]
  const members: RunningBaton[] = []
  try {
    const worker = ['worker', ...place, '--engine', 'sim', '--sim-blocks', KV_BLOCKS]
    worker.push('--sim-speedup', values.speedup)
    for (let count = 0; count < workerCount; count++)
      members.push(await startBaton([...worker, '--mode', modeOf(count)], /ready/))
    const urls: string[] = []
    for (let count = 0; count < frontendCount; count++) {
      const events = values.events === 'off' ? ['--router-kv-events', 'false'] : []
      const frontend = await startBaton(['frontend', ...place, '--port', '0', ...events], /http:/)
      members.push(frontend)
      const url = /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
      await until('it is ready', async () => (await fetch(`${url}/ready`)).status === 200)
      urls.push(url)
    }
    for (let i = 0; i < Number(values.warm); i++)
      await Promise.all(urls.map((url, j) => ask(url, `${j} ${i} warm`.repeat(20))))
    const usedMs = machineMs()
    const startedMs = performance.now()
    const outcomes = await Promise.all(
      planned.map(async ({ atMs, prompt }, index) => {
        await sleep(Math.max(0, atMs - (performance.now() - startedMs)))
        return await ask(urls[index % urls.length] as string, prompt)
      }),
    )
    const cpu = (machineMs() - usedMs) / (performance.now() - startedMs) / cpus().length
    return { outcomes, cpu }
  } finally {
    for (const { process } of members) process.kill('SIGTERM')
    await Promise.all(members.map(({ ended }) => ended))
    await nats?.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Quality {
  readonly reuse: number
  readonly meanMs: number
  readonly medianMs: number
  readonly p90Ms: number
}

function qualityOf(outcomes: readonly Outcome[]): Quality {
  const sum = (of: (outcome: Outcome) => number): number =>
    outcomes.reduce((total, outcome) => total + of(outcome), 0)
  return {
    reuse: sum(({ cachedTokens }) => cachedTokens) / sum(({ promptTokens }) => promptTokens),
    meanMs: sum(({ ttftMs }) => ttftMs) / outcomes.length,
    medianMs: median(outcomes.map(({ ttftMs }) => ttftMs)),
    p90Ms: outcomes.map(({ ttftMs }) => ttftMs).toSorted((a, b) => a - b)[
      Math.floor(0.9 * outcomes.length)
    ] as number,
  }
}

const first = new Map<number, Quality>()
for (let round = 0; round < Number(values.rounds); round++) {
  const planned = plan(round + 1)
  for (const frontends of values.frontends.split(',').map(Number)) {
    const stalls = monitorEventLoopDelay({ resolution: 5 })
    stalls.enable()
    const { outcomes, cpu } = await run(frontends, planned)
    const quality = qualityOf(outcomes)
    stalls.disable()
    const base = first.get(round) ?? quality
    first.set(round, base)
    const against = (now: number, before: number): string => (now / before).toFixed(3)
    console.log(
      `seed ${round + 1}, ${frontends} frontends: reuse ${(100 * quality.reuse).toFixed(1)} % (${against(quality.reuse, base.reuse)}), TTFT mean ${quality.meanMs.toFixed(1)} ms (${against(quality.meanMs, base.meanMs)}), median ${quality.medianMs.toFixed(1)} ms (${against(quality.medianMs, base.medianMs)}), p90 ${quality.p90Ms.toFixed(1)} ms (${against(quality.p90Ms, base.p90Ms)}), cpu ${(100 * cpu).toFixed(0)} %, stalls ${(stalls.max / 1e6).toFixed(0)} ms`,
    )
  }
}
