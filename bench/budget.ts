/**
 * The CPU time of the frontend by room: a CPU profile of a workload, summed by room, by library and by Node's own
 * work.
 *
 * npx tsx bench/budget.ts [--workload p64|n16|s16x512|l8k] [--seconds 10] [--prefill 0|1]
 *
 * The profile gives shares; the operating system's accounting gives µs. Both are of the same run.
 */
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer } from '../test/running-server.ts'
import { BundleSources } from './load/bundle-sources.ts'
import { measure, printRow } from './load/measure.ts'
import { readOptions } from './load/options.ts'
import { WORKLOADS } from './load/workloads.ts'

const { values } = readOptions({
  options: {
    workload: { type: 'string', default: 'p64' },
    seconds: { type: 'string', default: '10' },
    prefill: { type: 'string', default: '0' },
  },
})

interface CpuProfile {
  readonly startTime: number
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: {
      readonly functionName: string
      readonly url: string
      readonly lineNumber: number
      readonly columnNumber: number
    }
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

const MODULE_LOADING =
  /compileSourceTextModule|wrapSafe|openFileHandle|cjs\/loader|esm\/|realpath|internalModuleStat/

type CallFrame = CpuProfile['nodes'][number]['callFrame']

const sources = new BundleSources()

function placeOf({ functionName: name, url: built, lineNumber, columnNumber }: CallFrame): string {
  const url = sources.sourceOf(built, lineNumber, columnNumber) ?? built
  if (/^write(Latin1String|Utf8String|Buffer|v)$/.test(name)) return 'socket: write system call'
  if (name === '(garbage collector)') return 'garbage collector'
  const library = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1]
  if (library !== undefined) return `library ${library}`
  const room = /(?:^|\/)src\/([a-z]+)\//.exec(url)?.[1]
  if (room !== undefined) return `room ${room}`
  if (url.includes('/dist/')) return 'bundle, of no room'
  if (/_http|http/.test(url)) return 'node: http'
  if (/net|stream/.test(url)) return 'node: sockets and streams'
  if (MODULE_LOADING.test(`${name} ${url}`)) return 'loading modules'
  if (url.startsWith('node:')) return 'node: event loop and rest'
  return 'native: parser, JSON, regular expressions, system'
}

/** Self time in µs by place, of the samples between two times after the start. */
function byPlace(profile: CpuProfile, fromMs: number, toMs: number): Map<string, number> {
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]))
  const sums = new Map<string, number>()
  let atMicros = 0
  for (const [index, id] of profile.samples.entries()) {
    const delta = profile.timeDeltas[index] ?? 0
    atMicros += delta
    const frame = frames.get(id)
    if (frame === undefined || atMicros < fromMs * 1000 || atMicros > toMs * 1000) continue
    if (frame.functionName === '(idle)') continue
    const place = placeOf(frame)
    sums.set(place, (sums.get(place) ?? 0) + delta)
  }
  return sums
}

const workload = WORKLOADS.find(({ name }) => name === values.workload)
if (workload === undefined)
  throw new Error(`no workload ${values.workload}: ${WORKLOADS.map(({ name }) => name).join(', ')}`)
const folder = mkdtempSync(join(tmpdir(), 'baton-budget-'))
const topology =
  values.prefill === '0' ? ['--aggregated', '1'] : ['--prefill', '1', '--decode', '1']
const startedAt = performance.now()
const server = await startServer(
  [
    '--engine',
    'sim',
    '--sequences',
    '1024',
    '--context-length',
    '131072',
    '--sim-speedup',
    workload.paced ? '1' : '0',
    ...topology,
  ],
  {},
  ['--cpu-prof', '--cpu-prof-interval', '200', `--cpu-prof-dir=${folder}`],
)
const seconds = Number(values.seconds)
const row = await measure('profiled', server, workload, seconds)
const endedMs = performance.now() - startedAt
printRow(row)
await server.stop()

const file = readdirSync(folder).find((name) => name.includes(`.${server.frontendPid}.`))
const profile = JSON.parse(readFileSync(join(folder, file ?? ''), 'utf8')) as CpuProfile
rmSync(folder, { recursive: true })
const sums = byPlace(profile, endedMs - seconds * 1000, endedMs)
const total = [...sums.values()].reduce((sum, micros) => sum + micros, 0)
const perRequest = row.frontendMicrosPerRequest
const unit = workload.tokens >= 256 ? 'token' : 'request'
const micros = unit === 'token' ? perRequest / workload.tokens : perRequest
console.log(
  `${workload.name}: ${micros.toFixed(1)} µs of frontend CPU per ${unit} (with the profiler on), of which`,
)
for (const [place, time] of [...sums].sort((a, b) => b[1] - a[1])) {
  const share = time / total
  if (share < 0.005) continue
  console.log(
    `  ${(share * micros).toFixed(2).padStart(8)} µs  ${(share * 100).toFixed(1).padStart(5)} %  ${place}`,
  )
}
