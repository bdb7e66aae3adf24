/**
 * Cost of one routing decision for a prompt of 8,192 tokens (512 blocks of 16) with 10 to 10,000 workers that have four
 * active requests each. All prompts share 32 blocks; the prompt is cached on a tenth of the workers or on all.
 *
 * Prints medians in microseconds of: hashing; the whole decision (hash, find, loads, cost, pick, record); loads and
 * selection alone (hashes known, empty index); reserving and releasing. The baseline is a straightforward
 * implementation that reads every worker's load from a separate map for each decision.
 *
 *   npx tsx bench/decision.ts [--cost time|blocks] [--workers 10,100,1000,10000]
 */
import { seededRandom, workerIdOf } from '../src/base/index.ts'
import { hashBlocks } from '../src/kv/index.ts'
import type { GenerateRequest } from '../src/request/index.ts'
import { completeRouterConfig, KvRouter } from '../src/router/index.ts'
import type { RouterOptions } from '../src/router/index.ts'
import { readOptions } from './load/options.ts'

const { values } = readOptions({
  options: {
    cost: { type: 'string', default: 'time' },
    workers: { type: 'string', default: '10,100,1000,10000' },
  },
})

const config = completeRouterConfig({ cost: values.cost as NonNullable<RouterOptions['cost']> })
const BLOCK_TOKENS = 16
const PROMPT_TOKENS = 8192
const SHARED_TOKENS = 32 * BLOCK_TOKENS
const REQUESTS_PER_WORKER = 4
const WARM_UP = 200
/** Without a known pace `--cost time` would decide by blocks. */
const PACE = {
  promptMs: 5,
  promptTokenMs: 0.1,
  stepMs: 10,
  stepRequestMs: 0.1,
  stepContextTokenMs: 0.001,
}
/** Above this the baseline takes too long. */
const PLAIN_WORKERS_MAX = 1000
const clock = {
  nowMs: () => performance.now(),
  epochMs: () => 0,
  after: () => ({ cancel: () => undefined }),
}

function promptOf(seed: number): Uint32Array {
  const prompt = new Uint32Array(PROMPT_TOKENS)
  for (let i = 0; i < PROMPT_TOKENS; i++) {
    prompt[i] =
      i < SHARED_TOKENS ? i : (Math.imul(i + seed * PROMPT_TOKENS, 2654435761) >>> 0) % 99_991
  }
  return prompt
}

function requestOf(tokenIds: Uint32Array): GenerateRequest {
  return {
    requestId: 'bench',
    model: 'm',
    tokenIds,
    sampling: {},
    stop: {},
    output: {},
    eosTokenIds: [],
    routing: {},
  }
}

const query = (tokenIds: Uint32Array) =>
  ({ request: requestOf(tokenIds), phase: 'aggregated', queuedMs: 0 }) as const

function fill(workers: number, overlapShare: number, prompt: Uint32Array): KvRouter {
  const router = new KvRouter({ config, clock, random: seededRandom(1) })
  const hashes = hashBlocks(prompt, BLOCK_TOKENS)
  for (let id = 1; id <= workers; id++) {
    const workerId = workerIdOf(id)
    router.workerJoined({
      workerId,
      mode: 'agg',
      host: 'h',
      port: 1,
      engineName: 'bench',
      publishesKvEvents: true,
      version: '0',
      engine: { model: 'm', kvCacheBlockSize: BLOCK_TOKENS, pace: PACE },
    })
    if (id > workers * overlapShare) continue
    // Every worker has cached another length of it, as in a fleet that has served many turns.
    const blocks = 1 + ((id * 37) % (hashes.sequence.length / 2))
    router.kvEvents(workerId, {
      sequence: 0,
      dpRank: 0,
      events: [
        {
          kind: 'stored',
          parent: null,
          hashes: hashes.sequence.slice(0, 2 * blocks),
          localHashes: hashes.local.slice(0, 2 * blocks),
          tier: 'device',
        },
      ],
    })
  }
  for (let i = 0; i < workers * REQUESTS_PER_WORKER; i++) {
    const target = workerIdOf(1 + (i % workers))
    const request = { ...requestOf(promptOf(i + 2)), routing: { backendWorkerId: target } }
    const answer = router.peek({ request, phase: 'aggregated', queuedMs: 0 })
    if (answer.kind === 'selected') router.book(answer)
  }
  return router
}

function medianUs(rounds: number, run: () => void): number {
  for (let i = 0; i < WARM_UP; i++) run()
  const times: number[] = []
  for (let i = 0; i < rounds; i++) {
    const start = performance.now()
    run()
    times.push(1000 * (performance.now() - start))
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0
}

/** Per worker a map of its active blocks; every decision asks every worker. */
class PlainLoads {
  readonly #workers: { blocks: Map<number, number>; prefillTokens: number }[] = []

  constructor(workers: number) {
    for (let id = 0; id < workers; id++) {
      const blocks = new Map<number, number>()
      let prefillTokens = 0
      for (let r = 0; r < REQUESTS_PER_WORKER; r++) {
        const { sequence } = hashBlocks(promptOf(r * workers + id + 2), BLOCK_TOKENS)
        for (let i = 0; i < sequence.length; i += 2) {
          const key = sequence[i] as number
          blocks.set(key, (blocks.get(key) ?? 0) + 1)
        }
        prefillTokens += PROMPT_TOKENS
      }
      this.#workers.push({ blocks, prefillTokens })
    }
  }

  select(sequence: Uint32Array): number {
    let best = -1
    let lowest = Infinity
    this.#workers.forEach(({ blocks, prefillTokens }, worker) => {
      let depth = 0
      while (depth * 2 < sequence.length && blocks.has(sequence[2 * depth] as number)) depth++
      const prefill = (prefillTokens + PROMPT_TOKENS) / BLOCK_TOKENS
      const cost = prefill + blocks.size + sequence.length / 2 - depth
      if (cost >= lowest) return
      lowest = cost
      best = worker
    })
    return best
  }
}

function timePlain(workers: number): number {
  const loads = new PlainLoads(workers)
  const { sequence } = hashBlocks(promptOf(1), BLOCK_TOKENS)
  const times: number[] = []
  for (let i = 0; i < 40; i++) {
    const start = performance.now()
    loads.select(sequence)
    times.push(1000 * (performance.now() - start))
  }
  return times.sort((a, b) => a - b)[20] ?? 0
}

const us = (value: number): string => value.toFixed(1).padStart(9)

console.log(`8,192-token prompt, medians in µs, Node ${process.version}`)
console.log(
  'workers      hash  whole 10%  whole 100%  loads+sel      book      free     plain  plain/ours',
)
const prompt = promptOf(1)
for (const workers of values.workers.split(',').map(Number)) {
  const rounds = workers >= 10_000 ? 300 : 2000
  const hash = medianUs(rounds, () => void hashBlocks(prompt, BLOCK_TOKENS))
  const whole = [0.1, 1].map((share) => {
    const router = fill(workers, share, prompt)
    // A new array each time, so that nothing about the prompt is cached.
    return medianUs(rounds, () => void router.select(query(prompt.slice())))
  })
  const router = fill(workers, 0, prompt)
  const known = query(prompt)
  const loads = medianUs(rounds, () => void router.select(known))
  const answer = router.peek(known)
  if (answer.kind === 'refused') throw answer.error
  let booking = router.book(answer)
  const free = medianUs(rounds, () => {
    router.free(booking)
    booking = router.book(answer)
  })
  const bookings = Array.from({ length: rounds + WARM_UP }, () => booking)
  let n = 0
  const book = medianUs(rounds, () => {
    bookings[n++] = router.book(answer)
  })
  const plain = workers > PLAIN_WORKERS_MAX ? null : timePlain(workers)
  const ratio = plain === null ? '' : `${us(plain)}  ${(plain / loads).toFixed(1).padStart(9)}x`
  console.log(
    `${String(workers).padStart(7)} ${us(hash)}  ${us(whole[0] ?? 0)}   ${us(whole[1] ?? 0)}  ${us(loads)} ${us(book)} ${us(free)} ${ratio}`,
  )
}
