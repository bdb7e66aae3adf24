/**
 * Behaviour of a fleet under overload: two simulated workers at real speed get 1, 2, 5 and 10 times their capacity
 * (Poisson arrivals, open loop, streams), through one frontend and through two that share the workers. With
 * `--disaggregated` two prefill and two decode workers.
 *
 *   npm run build && npx tsx bench/overload.ts [--seconds 10] [--times 1,2,5,10] [--frontends 1,2] [--patience 10] [--disaggregated]
 *
 * Prints for each load:
 * - goodput: complete answers as a share of the offered load or of the capacity, whichever is less; a client
 *   disconnects if its first token takes longer than `--patience` seconds
 * - refused requests, how many of them had Retry-After, clients that gave up, and TTFT of accepted requests
 * - recovery: after the load has fallen to half the capacity, the time until five consecutive requests have the TTFT of
 *   a fleet that never had more than this load
 * - CPU of this program and of the first frontend, as a share of a core; near 100 % they limit the result
 *
 * The capacity is measured before and after each load, because the speed of simulated workers depends on other load on
 * the machine. Answer lengths are 0.5 to 1.5 times the mean: with equal lengths whole batches would start and end
 * together in a closed loop, which is 25 % faster than these engines are with independent arrivals.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seededRandom } from '../src/base/index.ts'
import { startBaton, startServer } from '../test/running-server.ts'
import { readOptions } from './load/options.ts'
import { cpuMicros } from './load/process-cpu.ts'

const { values } = readOptions({
  options: {
    seconds: { type: 'string', default: '10' },
    times: { type: 'string', default: '1,2,5,10' },
    frontends: { type: 'string', default: '1,2' },
    patience: { type: 'string', default: '10' },
    disaggregated: { type: 'boolean', default: false },
  },
})
const SECONDS = Number(values.seconds)
const PATIENCE_MS = 1000 * Number(values.patience)
const SEQUENCES = 8
const OUTPUT_TOKENS = 40
const WARM_MS = 1500
const PROMPT_WORDS = 150
const random = seededRandom(7)
const lengths = seededRandom(8)
const agent = new Agent({ keepAlive: true, maxSockets: Infinity })

interface Answer {
  /** Milliseconds of the run when it was sent and when it ended. */
  readonly askedMs: number
  endedMs: number
  ttftMs: number | null
  kind: 'complete' | 'refused' | 'gave up' | 'failed'
  retryAfter: boolean
}

function bodyOf(n: number): string {
  const words = Array.from({ length: PROMPT_WORDS }, (_, i) => `w${(n * 131 + i * 7) % 9973}`)
  return JSON.stringify({
    model: 'fleet',
    stream: true,
    max_tokens: Math.round(OUTPUT_TOKENS * (0.5 + lengths.next())),
    ignore_eos: true,
    messages: [{ role: 'user', content: `${n} ${words.join(' ')}` }],
  })
}

interface LoadResult {
  readonly answers: readonly Answer[]
  readonly goodput: number
  readonly offeredRate: number
  readonly recoveryMs: number
  readonly cpu: string
}

let asked = 0

function ask(port: number): Promise<Answer> {
  const askedMs = performance.now()
  const answer: Answer = { askedMs, endedMs: 0, ttftMs: null, kind: 'failed', retryAfter: false }
  const body = bodyOf(asked++)
  return new Promise((resolve) => {
    let patience: NodeJS.Timeout | undefined
    const end = (kind: Answer['kind']): void => {
      if (answer.endedMs > 0) return
      clearTimeout(patience)
      answer.endedMs = performance.now()
      answer.kind = kind
      resolve(answer)
    }
    const headers = { 'content-type': 'application/json', 'content-length': body.length }
    const path = '/v1/chat/completions'
    const sent = httpRequest({ port, path, method: 'POST', headers, agent }, (reply) => {
      const isRefused = reply.statusCode === 529 || reply.statusCode === 429
      answer.retryAfter = reply.headers['retry-after'] !== undefined
      let tail = ''
      reply.on('data', (bytes: Buffer) => {
        const text = tail + bytes.toString('latin1')
        if (answer.ttftMs === null && text.includes('"content"')) {
          answer.ttftMs = performance.now() - askedMs
          clearTimeout(patience)
        }
        tail = text.slice(-64)
      })
      reply.on('end', () => {
        if (isRefused) end('refused')
        else end(reply.statusCode === 200 && tail.includes('[DONE]') ? 'complete' : 'failed')
      })
      reply.on('error', () => end('failed'))
    })
    patience = setTimeout(() => {
      end('gave up')
      sent.destroy()
    }, PATIENCE_MS)
    sent.on('error', () => end('failed'))
    sent.end(body)
  })
}

/** Uses as many clients as keep the fleet full; each sends its next request after its answer. */
async function capacityOf(ports: readonly number[]): Promise<number> {
  const untilMs = performance.now() + 1000 * Math.min(SECONDS, 6)
  const answers: Answer[] = []
  const client = async (n: number): Promise<void> => {
    while (performance.now() < untilMs) answers.push(await ask(ports[n % ports.length] ?? 0))
  }
  await Promise.all(Array.from({ length: 2 * SEQUENCES + 8 }, (_, n) => client(n)))
  return perSecond(answers, untilMs - 1000 * Math.min(SECONDS - 1, 5), untilMs)
}

function perSecond(answers: readonly Answer[], fromMs: number, untilMs: number): number {
  const done = answers.filter(
    ({ kind, endedMs }) => kind === 'complete' && endedMs >= fromMs && endedMs < untilMs,
  )
  return (1000 * done.length) / (untilMs - fromMs)
}

/** Poisson arrivals, sent to the frontends in turn; resolves with all answers. */
async function offer(ports: readonly number[], rate: number, seconds: number): Promise<Answer[]> {
  const untilMs = performance.now() + 1000 * seconds
  const answers: Promise<Answer>[] = []
  let nextMs = performance.now()
  while (nextMs < untilMs) {
    nextMs += (-1000 * Math.log(1 - random.next())) / rate
    const waitMs = nextMs - performance.now()
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs))
    answers.push(ask(ports[answers.length % ports.length] ?? 0))
  }
  return Promise.all(answers)
}

const percentile = (sorted: readonly number[], p: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor((p / 100) * sorted.length))] ?? NaN

/** From the end of the load to the first of five consecutive answers that are as fast as without the load. */
function recoveryMs(answers: readonly Answer[], sinceMs: number, calmMs: number): number {
  let first: Answer | undefined
  let count = 0
  for (const answer of answers) {
    const isGood = answer.kind === 'complete' && (answer.ttftMs ?? Infinity) <= 2 * calmMs
    if (isGood && count === 0) first = answer
    count = isGood ? count + 1 : 0
    if (count === 5) return Math.max((first?.askedMs ?? NaN) - sinceMs, 0)
  }
  return Infinity
}

async function run(frontends: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'baton-overload-'))
  const sim = ['--engine', 'sim', '--sequences', String(SEQUENCES), '--served-model-name', 'fleet']
  const workers = values.disaggregated ? ['--prefill', '2', '--decode', '2'] : ['--aggregated', '2']
  const server = await startServer([...workers, '--discovery-dir', folder, ...sim])
  const ports = [server.port]
  const others = []
  for (let n = 1; n < frontends; n++) {
    const other = await startBaton(['frontend', '--port', '0', '--discovery-dir', folder], /http:/)
    others.push(other)
    ports.push(Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(other.printed())?.[1]))
  }
  try {
    for (const port of ports) while ((await ask(port)).kind !== 'complete') continue
    const capacity = await capacityOf(ports)
    const half = await offer(ports, capacity / 2, 4)
    const calm = half.map(({ ttftMs }) => ttftMs ?? 0).sort((a, b) => a - b)
    const calmMs = percentile(calm, 95)
    console.log(
      `${frontends} frontend${frontends > 1 ? 's' : ''}: capacity ${capacity.toFixed(1)} req/s, TTFT at half of it ${calmMs.toFixed(0)} ms (p95)`,
    )
    let before = capacity
    for (const times of values.times.split(',').map(Number)) {
      const load = { times, capacity: before, calmMs }
      const result = await runLoad({ ports, pid: server.process.pid ?? 0 }, load)
      const after = await capacityOf(ports)
      report(result, { times, before, after })
      before = after
    }
  } finally {
    for (const { process: child, ended } of others) {
      child.kill('SIGTERM')
      await ended
    }
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function runLoad(
  { ports, pid }: { ports: readonly number[]; pid: number },
  { times, capacity, calmMs }: { times: number; capacity: number; calmMs: number },
): Promise<LoadResult> {
  const startMs = performance.now()
  const cpuBefore = [cpuMicros(process.pid), cpuMicros(pid)] as const
  const pending = offer(ports, times * capacity, SECONDS)
  await new Promise((resolve) => setTimeout(resolve, 1000 * SECONDS))
  const endMs = performance.now()
  const shareOf = (n: 0 | 1, of: number): string =>
    `${((cpuMicros(of) - cpuBefore[n]) / 10 / (endMs - startMs)).toFixed(0)} %`
  const cpu = `CPU ${shareOf(0, process.pid)} and ${shareOf(1, pid)}`
  const after = await offer(ports, capacity / 2, 4)
  const answers = await pending
  const goodput = perSecond(answers, startMs + WARM_MS, endMs)
  const offered = answers.filter(
    ({ askedMs }) => askedMs >= startMs + WARM_MS && askedMs < endMs,
  ).length
  const offeredRate = (1000 * offered) / (endMs - startMs - WARM_MS)
  return { answers, goodput, offeredRate, recoveryMs: recoveryMs(after, endMs, calmMs), cpu }
}

/**
 * The fleet's pace varies with other load on the machine, so the capacity is the mean of before and after the load.
 */
function report(
  { answers, goodput, offeredRate, recoveryMs: recovery, cpu }: LoadResult,
  { times, before, after }: { times: number; before: number; after: number },
): void {
  const wanted = Math.min((before + after) / 2, offeredRate)
  const count = (kind: Answer['kind']): number =>
    answers.filter((answer) => answer.kind === kind).length
  const told = answers.filter(({ kind, retryAfter }) => kind === 'refused' && retryAfter).length
  const ttft = answers.flatMap(({ kind, ttftMs }) => (kind === 'complete' ? (ttftMs ?? []) : []))
  ttft.sort((a, b) => a - b)
  console.log(
    `${String(times).padStart(4)} x  goodput ${goodput.toFixed(1).padStart(6)} req/s (${((100 * goodput) / wanted).toFixed(0)} %)` +
      `  capacity ${before.toFixed(1)} before, ${after.toFixed(1)} after` +
      `  refused ${count('refused')} (Retry-After ${told})  gave up ${count('gave up')}  failed ${count('failed')}` +
      `  TTFT p50 ${percentile(ttft, 50).toFixed(0)} p99 ${percentile(ttft, 99).toFixed(0)} ms` +
      `  recovery ${(recovery / 1000).toFixed(2)} s  ${cpu}`,
  )
}

for (const frontends of values.frontends.split(',').map(Number)) await run(frontends)
agent.destroy()
