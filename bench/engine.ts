/**
 * Cost of the llama.cpp engine: tokens/s and CPU per token, alone in a process and behind `baton serve`, compared with
 * llama.cpp's own server in the same run.
 *
 *   npx tsx bench/engine.ts [--only alone|served] [--llama-server DIR] [--threads 1] [--streams 1,8,32]
 *     [--prompts 100,500,1400] [--batching auto] [--model file.gguf] [--fast] [--warm-up 0]
 *
 * `--llama-server` names a folder with a `venv/bin/python` that has the wheel `xllamacpp`. Every request has a
 * different prompt. CPU is that of all processes of a server, without the load generator. `--warm-up` is the number of
 * short requests that both servers get first; without them the figures include the time in which V8 compiles code.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { workerIdOf } from '../src/base/index.ts'
import { RequestContext } from '../src/engine/index.ts'
import { LlamaCppEngine } from '../src/llamacpp/index.ts'
import { freePort } from '../test/free-port.ts'
import { startServer } from '../test/running-server.ts'
import { load } from './load/measure.ts'
import { readOptions } from './load/options.ts'
import { cpuMicros } from './load/process-cpu.ts'
import { median } from './load/summary.ts'
import { prompt } from './load/workloads.ts'

const { values } = readOptions({
  options: {
    only: { type: 'string' },
    'llama-server': { type: 'string' },
    threads: { type: 'string', default: '1' },
    streams: { type: 'string', default: '1,8,32' },
    prompts: { type: 'string', default: '100,500,1400' },
    batching: { type: 'string', default: 'auto' },
    model: { type: 'string', default: 'models/storyteller/storyteller-q8_0.gguf' },
    fast: { type: 'boolean', default: false },
    'warm-up': { type: 'string', default: '0' },
  },
})
const OUTPUT_TOKENS = values.fast ? 64 : 128
const streams = values.streams.split(',').map(Number)
const prompts = values.prompts.split(',').map(Number)

async function alone(batching: 'exact' | 'throughput', inFlight: number): Promise<void> {
  const threads = Number(values.threads)
  const engine = new LlamaCppEngine({ modelPath: values.model, batching, threads })
  await engine.start(workerIdOf(1))
  const speeds: number[] = []
  const costs: number[] = []
  for (let round = 0; round < 5; round++) {
    const started = performance.now()
    const before = process.cpuUsage()
    const counts = await Promise.all(Array.from({ length: inFlight }, (_, i) => stream(engine, i)))
    const { user, system } = process.cpuUsage(before)
    const tokens = counts.reduce((sum, count) => sum + count, 0)
    speeds.push((tokens * 1000) / (performance.now() - started))
    costs.push((user + system) / tokens)
  }
  await engine.cleanup()
  // The first round is not counted, because code is still being compiled.
  print('engine alone', `${inFlight} in flight, ${batching}`, speeds.slice(1), costs.slice(1))
}

async function stream(engine: LlamaCppEngine, seed: number): Promise<number> {
  const requestId = String(seed)
  let tokens = 0
  const request = {
    requestId,
    model: 'bench',
    tokenIds: Uint32Array.from({ length: 8 }, (_, i) => 100 + i * 7 + seed),
    sampling: { temperature: 0 },
    stop: { maxTokens: 300, ignoreEos: true },
    output: {},
    eosTokenIds: [],
    routing: {},
  }
  for await (const chunk of engine.generate(request, new RequestContext(requestId))) {
    tokens += chunk.tokenIds.length
  }
  return tokens
}

interface Server {
  readonly name: string
  readonly port: number
  readonly pids: readonly number[]
  stop(): Promise<unknown>
}

let bodies = 0
function body(words: number): string {
  return JSON.stringify({
    model: 'storyteller',
    messages: [{ role: 'user', content: prompt(words, ++bodies) }],
    max_tokens: OUTPUT_TOKENS,
    ignore_eos: true,
    temperature: 0,
    stream: true,
  })
}

async function served(server: Server, words: number, concurrency: number): Promise<number[]> {
  // At least about a second of work, because CPU is accounted in steps of 10 ms.
  const [rounds, least] = words > 1000 ? [1, 6] : words > 300 ? [2, 16] : [6, 60]
  const requests = Math.max(least, concurrency * rounds)
  const bodiesOf = (count: number): string[] => Array.from({ length: count }, () => body(words))
  const spec = { port: server.port, path: '/v1/chat/completions', seconds: 200, warmupRequests: 0 }
  const warm = Math.min(4, concurrency)
  await load({ ...spec, bodies: bodiesOf(warm), concurrency: warm, requestsMax: warm })
  const before = server.pids.map(cpuMicros)
  const result = await load({
    ...spec,
    bodies: bodiesOf(requests),
    concurrency,
    requestsMax: requests,
  })
  const spent = server.pids.reduce((sum, pid, i) => sum + cpuMicros(pid) - (before[i] ?? 0), 0)
  if (result.failures > 0) throw new Error(`${server.name}: ${result.firstFailure}`)
  const tokens = result.requests * OUTPUT_TOKENS
  const speed = (tokens * 1000) / result.elapsedMs
  const what = `prompt ${words}, ${concurrency} stream${concurrency === 1 ? '' : 's'}`
  print(server.name, what, [speed], [spent / tokens])
  return [speed, spent / tokens]
}

async function warmUp({ port }: Server, requests: number): Promise<void> {
  if (requests === 0) return
  const bodies = Array.from({ length: requests }, () => body(10))
  const spec = { port, path: '/v1/chat/completions', seconds: 200, warmupRequests: 0 }
  await load({ ...spec, bodies, concurrency: 8, requestsMax: requests })
}

async function startBaton(): Promise<Server> {
  const parallel = String(Math.min(32, Math.max(...streams)))
  const engine = ['--model', values.model, '--threads', values.threads, '--sequences', parallel]
  const server = await startServer(['--aggregated', '1', ...engine, '--batching', values.batching])
  const pids = [server.frontendPid, ...server.workerPids]
  return { name: 'baton', port: server.port, pids, stop: () => server.stop() }
}

/** llama.cpp's server from the wheel xllamacpp, with as many slots as there are streams. */
async function startLlamaServer(folder: string): Promise<Server> {
  const port = await freePort()
  const parallel = Math.min(32, Math.max(...streams))
  const script = `
import time, xllamacpp as x
p = x.CommonParams()
p.model.path = ${JSON.stringify(values.model)}; p.n_parallel = ${parallel}; p.n_ctx = 4096 * ${parallel}
p.n_batch = 512; p.n_ubatch = 512; p.cpuparams.n_threads = ${values.threads}; p.cpuparams_batch.n_threads = ${values.threads}
p.hostnames = ["127.0.0.1"]; p.port = ${port}; p.cont_batching = True; p.warmup = True; p.n_gpu_layers = 0
s = x.Server(p); print("ready", flush=True)
while True: time.sleep(60)
`
  const child = spawn(join(folder, 'venv/bin/python'), ['-c', script], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (bytes: Buffer) => {
      if (bytes.toString().includes('ready')) resolve()
    })
    child.once('exit', () => reject(new Error('llama.cpp’s server ended')))
  })
  return {
    name: 'llama-server',
    port,
    pids: [child.pid ?? 0],
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', resolve)
        child.kill('SIGKILL')
      }),
  }
}

function print(who: string, what: string, speeds: readonly number[], costs: readonly number[]) {
  const speed = `${median(speeds).toFixed(0)} tokens/s`.padStart(15)
  console.log(
    `${who.padEnd(13)} ${what.padEnd(28)} ${speed} ${median(costs).toFixed(0).padStart(7)} µs CPU per token`,
  )
}

if (values.only !== 'served') {
  for (const inFlight of [1, 8]) {
    await alone('exact', inFlight)
    await alone('throughput', inFlight)
  }
}
if (values.only !== 'alone') {
  const baton = await startBaton()
  const folder = values['llama-server']
  const other = folder === undefined ? null : await startLlamaServer(folder)
  try {
    for (const server of [baton, other]) {
      if (server !== null) await warmUp(server, Number(values['warm-up']))
    }
    for (const words of prompts) {
      for (const concurrency of streams) {
        const [speed = 0, cost = 0] = await served(baton, words, concurrency)
        if (other === null) continue
        const [otherSpeed = 0, otherCost = 0] = await served(other, words, concurrency)
        const ratios = [speed / otherSpeed, otherCost / cost].map((ratio) => ratio.toFixed(2))
        console.log(
          `${' '.repeat(13)} ${ratios[0]} x its tokens/s, its CPU per token is ${ratios[1]} x`,
        )
      }
    }
  } finally {
    await Promise.all([baton.stop(), other?.stop()])
  }
}
