/**
 * The cost of exact batching in the llama.cpp engine: time to first token by prompt length, and decode speed by
 * requests in flight, with `batching: 'exact'` and with `batching: 'throughput'`, in turns in one run.
 *
 * npx tsx bench/exactness-cost.ts [--model path.gguf] [--rounds 15]
 */
import { workerIdOf } from '../src/base/index.ts'
import { RequestContext } from '../src/engine/index.ts'
import { LlamaCppEngine } from '../src/llamacpp/index.ts'
import { readOptions } from './load/options.ts'
import { median } from './load/summary.ts'

const { values } = readOptions({
  options: {
    model: { type: 'string', default: 'models/storyteller/storyteller-q8_0.gguf' },
    rounds: { type: 'string', default: '15' },
  },
})
const ROUNDS = Number(values.rounds)
const OUTPUT_TOKENS = 100

async function startEngine(batching: 'exact' | 'throughput'): Promise<LlamaCppEngine> {
  const engine = new LlamaCppEngine({ modelPath: values.model, batching })
  await engine.start(workerIdOf(1))
  return engine
}

let requests = 0
/** Milliseconds to the first token and to the end. Every prompt is new, so no cache is used. */
async function time(engine: LlamaCppEngine, promptTokens: number, outputTokens: number) {
  requests += 1
  const requestId = `request-${requests}`
  const started = performance.now()
  let first = 0
  const stream = engine.generate(
    {
      requestId,
      model: 'bench',
      tokenIds: Uint32Array.from(
        { length: promptTokens },
        (_, i) => 4 + ((i * 31 + requests * 17) % 1900),
      ),
      sampling: { temperature: 0 },
      stop: { maxTokens: outputTokens, ignoreEos: true },
      output: {},
      eosTokenIds: [],
      routing: {},
    },
    new RequestContext(requestId),
  )
  for await (const chunk of stream) {
    if (first === 0 && chunk.tokenIds.length > 0) first = performance.now() - started
  }
  return { first, all: performance.now() - started }
}

const exact = await startEngine('exact')
const loose = await startEngine('throughput')
await time(exact, 100, 10)
await time(loose, 100, 10)

const rows: Record<string, Record<string, string>> = {}
for (const promptTokens of [1, 2, 20, 64, 100, 500, 2000]) {
  const [a, b]: [number[], number[]] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    a.push((await time(exact, promptTokens, 1)).first)
    b.push((await time(loose, promptTokens, 1)).first)
  }
  rows[`TTFT ms, ${promptTokens} tokens`] = row(median(a), median(b))
}
for (const inFlight of [1, 4, 8]) {
  const speed = async (engine: LlamaCppEngine) => {
    const all = await Promise.all(
      Array.from({ length: inFlight }, () => time(engine, 30, OUTPUT_TOKENS)),
    )
    return (inFlight * OUTPUT_TOKENS * 1000) / Math.max(...all.map((one) => one.all))
  }
  const [a, b]: [number[], number[]] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    a.push(await speed(exact))
    b.push(await speed(loose))
  }
  rows[`tokens/s, ${inFlight} in flight`] = row(median(a), median(b))
}
console.table(rows)
await Promise.all([exact.cleanup(), loose.cleanup()])

function row(exactValue: number, looseValue: number): Record<string, string> {
  return {
    exact: exactValue.toFixed(2),
    throughput: looseValue.toFixed(2),
    ratio: (exactValue / looseValue).toFixed(2),
  }
}
