/**
 * What the frontend adds: µs per request and per streamed token on top of a bare node:http server that writes the same
 * bytes, at 200 paced streams, and what a prompt of 60,000 words does to the streams of others. One run.
 *
 *   npx tsx bench/frontend.ts [--seconds 8] [--rounds 2] [--json out.json]
 */
import { writeFileSync } from 'node:fs'
import { startServer } from '../test/running-server.ts'
import type { RunningServer } from '../test/running-server.ts'
import { measure, microsPerToken, printRow, startBareServer } from './load/measure.ts'
import type { Row } from './load/measure.ts'
import { readOptions } from './load/options.ts'
import { prompt, WORKLOADS } from './load/workloads.ts'

const { values } = readOptions({
  options: {
    seconds: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '2' },
    json: { type: 'string' },
  },
})
const seconds = Number(values.seconds)
const byName = (name: string) => {
  const found = WORKLOADS.find((workload) => workload.name === name)
  if (found === undefined) throw new Error(`no workload ${name}`)
  return found
}
const SIM_COMMON = ['--engine', 'sim', '--sequences', '1024', '--context-length', '131072']
const SIM = [...SIM_COMMON, '--aggregated', '1']
const SIM_APART = [...SIM_COMMON, '--prefill', '1', '--decode', '1']

async function eventLoopDelayMs(server: RunningServer): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text()
  return Number(/^baton_frontend_event_loop_delay_p99_seconds (\S+)/m.exec(text)?.[1] ?? 0) * 1000
}

/** The event loop's delay is reset by a scrape, so it is scraped once after the warm-up. */
async function measured(topology: string, server: RunningServer, name: string): Promise<Row> {
  const isBare = topology === 'bare'
  const onWarm = isBare ? undefined : () => eventLoopDelayMs(server)
  const row = await measure(topology, server, byName(name), seconds, onWarm)
  printRow(row)
  if (!isBare) {
    console.log(`  event loop late by ${(await eventLoopDelayMs(server)).toFixed(1)} ms (p99)`)
  }
  return row
}

async function runAll(
  topology: string,
  server: RunningServer,
  names: readonly string[],
): Promise<Row[]> {
  const rows: Row[] = []
  for (const name of names) rows.push(await measured(topology, server, name))
  return rows
}

/** Long prompts one after the other until the signal; returns how many were answered. */
async function sendLongPrompts(server: RunningServer, signal: AbortSignal): Promise<number> {
  let answered = 0
  for (let index = 0; !signal.aborted; index++) {
    const reply = await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'storyteller',
        prompt: prompt(60_000, 7 + index),
        max_tokens: 1,
      }),
    })
    await reply.text()
    if (reply.status === 200) answered += 1
  }
  return answered
}

async function underLongPrompts(server: RunningServer): Promise<Row> {
  const stop = new AbortController()
  const sending = sendLongPrompts(server, stop.signal)
  const row = await measured('with 60k', server, 'p64')
  stop.abort()
  console.log(`  ${await sending} prompts of 60,000 words were answered meanwhile`)
  return row
}

const rows: Row[] = []
for (let round = 0; round < Number(values.rounds); round++) {
  const bare = await startBareServer()
  rows.push(...(await runAll('bare', bare, ['n16', 's16x1', 'p200'])))
  await bare.stop()
  const burst = await startServer([...SIM, '--sim-speedup', '0'])
  rows.push(...(await runAll('baton', burst, ['n16', 's16x1'])))
  await burst.stop()
  const paced = await startServer([...SIM, '--sim-speedup', '1'])
  rows.push(...(await runAll('baton', paced, ['p200'])))
  await paced.stop()
  // Prefill runs on other workers, so that only the frontend can disturb the streams.
  const apart = await startServer([...SIM_APART, '--sim-speedup', '1'])
  rows.push(...(await runAll('prefill apart', apart, ['p64'])))
  rows.push(await underLongPrompts(apart))
  await apart.stop()
}

/** The best round, because other work on a shared machine only ever adds time. */
function best(topology: string, name: string): Row | undefined {
  return rows
    .filter((row) => row.topology === topology && row.workload === name)
    .sort((a, b) => a.frontendMicrosPerRequest - b.frontendMicrosPerRequest)[0]
}
const bests = ['bare', 'baton'].flatMap((topology) =>
  ['n16', 's16x1', 'p200'].flatMap((name) => best(topology, name) ?? []),
)
const requestMicros = (topology: string): number =>
  best(topology, 'n16')?.frontendMicrosPerRequest ?? 0
const tokenMicros = (topology: string): number =>
  microsPerToken(bests, topology, byName('p200')) ?? 0
console.log(
  `per request: bare ${requestMicros('bare').toFixed(0)} µs, baton ${requestMicros('baton').toFixed(0)} µs: + ${(requestMicros('baton') - requestMicros('bare')).toFixed(0)} µs; ${(1e6 / requestMicros('baton')).toFixed(0)} req/s per core`,
)
console.log(
  `per token at 200 paced streams: bare ${tokenMicros('bare').toFixed(1)} µs, baton ${tokenMicros('baton').toFixed(1)} µs: + ${(tokenMicros('baton') - tokenMicros('bare')).toFixed(1)} µs; ${(1e6 / tokenMicros('baton')).toFixed(0)} tokens/s per core`,
)
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(rows, null, 2))
