/**
 * Effect of a batch on interactive requests: TTFT of paced requests alone, while a batch runs, and while the requests
 * of the batch are sent as ordinary ones.
 *
 *   npm run build && npx tsx bench/batch-interference.ts [--seconds 20]
 *
 * `--seconds` is the time of each of the three parts.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import { startServer } from '../test/running-server.ts'
import { readOptions } from './load/options.ts'

const { values } = readOptions({ options: { seconds: { type: 'string', default: '20' } } })
const PART_MS = Number(values.seconds) * 1000
const PACE_MS = 200
const WORDS = Array.from({ length: 400 }, (_, i) => `word${i}`).join(' ')

const dir = mkdtempSync(join(tmpdir(), 'baton-bench-batch-'))
const SIM = ['--engine', 'sim', '--aggregated', '1', '--sequences', '8']
const server = await startServer([...SIM, '--files-dir', dir])
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 })

const body = (text: string, maxTokens: number) => ({
  model: 'storyteller',
  max_tokens: maxTokens,
  messages: [{ role: 'user' as const, content: text }],
})

let asked = 0
async function firstTokenMs(): Promise<number> {
  const begunMs = performance.now()
  const stream = await client.chat.completions.create({
    ...body(`interactive ${asked++} ${WORDS}`, 16),
    stream: true,
  })
  let firstMs: number | null = null
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) firstMs ??= performance.now() - begunMs
  }
  return firstMs ?? Infinity
}

async function paced(): Promise<string> {
  const all: Promise<number>[] = []
  for (const endMs = performance.now() + PART_MS; performance.now() < endMs;) {
    // Refused: 529.
    all.push(firstTokenMs().catch(() => Infinity))
    await new Promise((resolve) => setTimeout(resolve, PACE_MS))
  }
  const times = (await Promise.all(all)).toSorted((a, b) => a - b)
  const at = (share: number): string => (times[Math.floor(times.length * share)] ?? NaN).toFixed(0)
  return `p50 ${at(0.5)} ms, p95 ${at(0.95)} ms of ${times.length}, refused ${times.filter((ms) => ms === Infinity).length}`
}

const lineOf = (i: number) => body(`background ${i} ${WORDS}`, 64)
console.log(`alone                      ${await paced()}`)

const lines = Array.from({ length: 20_000 }, (_, i) =>
  JSON.stringify({
    custom_id: `r${i}`,
    method: 'POST',
    url: '/v1/chat/completions',
    body: lineOf(i),
  }),
)
const file = await client.files.create({
  file: await toFile(Buffer.from(lines.join('\n')), 'lines.jsonl'),
  purpose: 'batch',
})
const { id } = await client.batches.create({
  input_file_id: file.id,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
})
while ((await client.batches.retrieve(id)).status !== 'in_progress') {
  await new Promise((resolve) => setTimeout(resolve, 20))
}
const before = (await client.batches.retrieve(id)).request_counts?.completed ?? 0
console.log(`during a batch             ${await paced()}`)
const after = (await client.batches.retrieve(id)).request_counts?.completed ?? 0
await client.batches.cancel(id)
console.log(`  lines answered meanwhile ${after - before}`)

let isOver = false
let answered = 0
const others = Array.from({ length: 64 }, async (_, client64) => {
  for (let i = client64; !isOver; i += 64) {
    await client.chat.completions
      .create({ ...lineOf(100_000 + i), stream: false })
      .then(() => answered++)
      .catch(() => undefined)
  }
})
console.log(`with 64 other clients      ${await paced()}`)
console.log(`  answered meanwhile       ${answered}`)
isOver = true
await Promise.all(others)
await server.stop()
rmSync(dir, { recursive: true })
