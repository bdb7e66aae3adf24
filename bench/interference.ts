/**
 * How much long prompts delay the tokens of other requests, with and without disaggregation.
 *
 * Four streams decode while prompts of about 2,000 tokens keep arriving at the real engine. Two aggregated workers are
 * compared with one prefill and one decode worker; both take turns in one run.
 *
 *   npx tsx bench/interference.ts [--seconds 8] [--rounds 3] [--every-ms 400] [--svg docs/interference.svg]
 *     [--json out.json]
 */
import { writeFileSync } from 'node:fs'
import { startServer } from '../test/running-server.ts'
import { readOptions } from './load/options.ts'
import { summary } from './load/summary.ts'
import type { Summary } from './load/summary.ts'
import { prompt } from './load/workloads.ts'
import { interferenceSvg } from './load/interference-svg.ts'

const { values } = readOptions({
  options: {
    seconds: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '3' },
    'every-ms': { type: 'string', default: '400' },
    svg: { type: 'string' },
    json: { type: 'string' },
  },
})

const TOPOLOGIES = {
  'two aggregated': ['--aggregated', '2'],
  'prefill + decode': ['--prefill', '1', '--decode', '1'],
} as const
type Topology = keyof typeof TOPOLOGIES

const STREAMS = 4
/** About 2,000 tokens: the words are single tokens of the shipped model. */
const LONG_PROMPT_WORDS = 1980

interface Sample {
  readonly itlMs: number[]
  readonly ttftMs: number[]
}

async function stream(
  url: string,
  signal: AbortSignal,
  onGap: (ms: number) => void,
): Promise<void> {
  while (!signal.aborted) {
    const reply = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'storyteller',
        messages: [{ role: 'user', content: 'Tell me a long story about a robot named Otto.' }],
        temperature: 0,
        max_tokens: 1000,
        ignore_eos: true,
        stream: true,
      }),
      signal,
    })
    let last = 0
    for await (const bytes of reply.body ?? []) {
      const events = Buffer.from(bytes).toString().split('data: ').length - 1
      const now = performance.now()
      if (last > 0 && events > 0) onGap((now - last) / events)
      last = now
    }
  }
}

async function prompts(
  url: string,
  signal: AbortSignal,
  round: number,
  onTtft: (ms: number) => void,
): Promise<void> {
  const everyMs = Number(values['every-ms'])
  for (let index = 0; !signal.aborted; index++) {
    const startedAt = performance.now()
    const reply = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'storyteller',
        prompt: prompt(LONG_PROMPT_WORDS, 1 + index + round * 1000),
        max_tokens: 1,
        temperature: 0,
      }),
      signal,
    })
    await reply.text()
    const tookMs = performance.now() - startedAt
    onTtft(tookMs)
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, everyMs - tookMs)))
  }
}

async function measure(topology: Topology, round: number): Promise<Sample> {
  const server = await startServer(TOPOLOGIES[topology])
  const sample: Sample = { itlMs: [], ttftMs: [] }
  const abort = new AbortController()
  let counting = false
  const running = [
    ...Array.from({ length: STREAMS }, () =>
      stream(server.url, abort.signal, (ms) => counting && sample.itlMs.push(ms)),
    ),
    prompts(server.url, abort.signal, round, (ms) => counting && sample.ttftMs.push(ms)),
  ].map((work) =>
    work.catch((error: unknown) => {
      if (!abort.signal.aborted) throw error
    }),
  )
  await new Promise((resolve) => setTimeout(resolve, 1500))
  counting = true
  await new Promise((resolve) => setTimeout(resolve, Number(values.seconds) * 1000))
  counting = false
  abort.abort()
  await Promise.all(running)
  await server.stop()
  return sample
}

const samples: Record<Topology, Sample> = {
  'two aggregated': { itlMs: [], ttftMs: [] },
  'prefill + decode': { itlMs: [], ttftMs: [] },
}
for (let round = 0; round < Number(values.rounds); round++) {
  for (const topology of Object.keys(TOPOLOGIES) as Topology[]) {
    const { itlMs, ttftMs } = await measure(topology, round)
    samples[topology].itlMs.push(...itlMs)
    samples[topology].ttftMs.push(...ttftMs)
  }
}

const show = ({ p50, p99, mean }: Summary): string =>
  `p50 ${p50.toFixed(1)}  p99 ${p99.toFixed(1)}  mean ${mean.toFixed(1)}`
const results = Object.fromEntries(
  Object.entries(samples).map(([topology, sample]) => {
    const result = {
      itlMs: summary(sample.itlMs),
      ttftMs: summary(sample.ttftMs),
      tokens: sample.itlMs.length,
      prompts: sample.ttftMs.length,
    }
    console.log(
      `${topology.padEnd(18)} ITL ms: ${show(result.itlMs)}   TTFT of the long prompts ms: ${show(result.ttftMs)}   (${result.tokens} gaps, ${result.prompts} prompts)`,
    )
    return [topology, result]
  }),
)
const ratio =
  (results['two aggregated']?.itlMs.p99 ?? 0) / (results['prefill + decode']?.itlMs.p99 ?? 1)
console.log(`ITL p99, aggregated against disaggregated: ${ratio.toFixed(2)} x`)
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(results, null, 2))
if (values.svg !== undefined) {
  writeFileSync(
    values.svg,
    interferenceSvg(Object.entries(samples).map(([name, { itlMs }]) => ({ name, itlMs }))),
  )
}
