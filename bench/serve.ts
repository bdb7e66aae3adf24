/**
 * Cost of serving: TTFT, ITL, tokens/s, requests/s, and CPU µs per request and per streamed token of the frontend
 * process and the workers, aggregated and disaggregated, compared with a bare node:http server that writes the same
 * bytes.
 *
 *   npx tsx bench/serve.ts [--seconds 5] [--json out.json] [--only s16x1,p64] [--engine sim|llamacpp]
 *
 * The workloads and reference figures are those of Dynamo 1.6.1 on a similar machine (two cores, shared with the load
 * generator): docs/performance.md. CPU is the operating system's accounting of each process.
 */
import { writeFileSync } from 'node:fs'
import { startServer } from '../test/running-server.ts'
import { measure, microsPerToken, printRow, startBareServer } from './load/measure.ts'
import type { Row } from './load/measure.ts'
import { readOptions } from './load/options.ts'
import { WORKLOADS } from './load/workloads.ts'

const { values } = readOptions({
  options: {
    seconds: { type: 'string', default: '5' },
    json: { type: 'string' },
    only: { type: 'string' },
    engine: { type: 'string', default: 'sim' },
  },
})

const TOPOLOGIES: Readonly<Record<string, readonly string[]>> = {
  aggregated: ['--aggregated', '2'],
  disaggregated: ['--prefill', '1', '--decode', '1'],
}
const BARE_WORKLOADS = ['n16', 's16x1', 'p64']

const seconds = Number(values.seconds)
const chosen = WORKLOADS.filter(({ name }) =>
  values.only === undefined ? name !== 'p200' : values.only.split(',').includes(name),
)
const rows: Row[] = []

function engineArgs(paced: boolean): string[] {
  if (values.engine !== 'sim') return []
  const speed = ['--sim-speedup', paced ? '1' : '0']
  return ['--engine', 'sim', '--context-length', '131072', '--sequences', '1024', ...speed]
}

async function run(topology: string, args: readonly string[], paced: boolean): Promise<void> {
  const workloads = chosen.filter((workload) => workload.paced === paced)
  if (workloads.length === 0) return
  const server = await startServer([...args, ...engineArgs(paced)])
  try {
    for (const workload of workloads) {
      const row = await measure(topology, server, workload, seconds)
      rows.push(row)
      printRow(row)
    }
  } catch (error) {
    console.error(server.printed())
    throw error
  } finally {
    await server.stop()
  }
}

const bare = await startBareServer()
for (const workload of chosen.filter(({ name }) => BARE_WORKLOADS.includes(name))) {
  const row = await measure('bare', bare, workload, seconds)
  rows.push(row)
  printRow(row)
}
await bare.stop()
for (const [topology, args] of Object.entries(TOPOLOGIES)) {
  await run(topology, args, false)
  await run(topology, args, true)
}
for (const topology of ['bare', ...Object.keys(TOPOLOGIES)]) {
  for (const workload of chosen.filter(({ tokens }) => tokens >= 256)) {
    const micros = microsPerToken(rows, topology, workload)
    if (micros === null) continue
    const system = microsPerToken(rows, topology, workload, 'frontendSystemMicrosPerRequest') ?? 0
    console.log(
      `${topology}: frontend ${micros.toFixed(1)} µs per streamed token (${workload.name} against s16x1), of which ${system.toFixed(1)} in the kernel`,
    )
  }
}
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(rows, null, 2))
