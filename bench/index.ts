/**
 * Speed of the prefix index: replays a trace against it, and a part of the trace against a radix tree of `Map`s.
 *
 *   node --expose-gc --import tsx bench/index.ts TRACE [--workers 8,64,1000] [--policy hash,sticky]
 *     [--event-blocks N] [--removal descending|ascending|random] [--no-find] [--requests N] [--map-requests N]
 *     [--against MODULE] [--verify] [--repeat N] [--best]
 *   node --expose-gc --import tsx bench/index.ts --stall
 *   node --expose-gc --import tsx bench/index.ts --loads short,chats,one,random,named,shared,holders (or all) [--beside DIR]
 *
 * As a program it is bundled, where V8 reads constants of other files without a binding: for figures of short calls use
 *   npx rolldown bench/index.ts --platform node --file OUT.mjs && node --expose-gc OUT.mjs --loads random
 *
 * TRACE: lines of `{"hash_ids": [...]}`; each id is 32 blocks. block-ops = blocks queried + stored + removed.
 * - `--best` uses the fastest round of every single request instead of the median of whole rounds; for shared machines.
 * - `--requests` replays only the first N; `--map-requests` is the number for the `Map` tree (0: none), which takes
 *   about a microsecond per block. The index gets the same requests once more to compute the ratio.
 * - `--against` names a module that exports `createSubject(workers)` (see `Subject`): another index, in turns with this
 *   one.
 * - `--verify` prints the digest of all decisions and the checksum of all scores (slow).
 * - `--loads` runs short chains, chains that grow by turns of a chat, one-block events, random removals of single blocks (named: of blocks with the hashes of
 *   engines; shared: of blocks that 2 to 8 workers have), and many holders of one prefix;
 *   with `--beside DIR` chains run in turns with the index of another checkout.
 * - `--stall` prints the longest single call while an index of 5 M blocks is filled and emptied.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { measureLoads } from './index/loads.ts'
import { fastest, replay, rowOf, Stretch } from './index/replay.ts'
import type { Figures } from './index/replay.ts'
import { measureStalls } from './index/stall.ts'
import { mapTree, typedArrays } from './index/subject.ts'
import type { Subject } from './index/subject.ts'
import { digestOf, playTrace, readTrace, splitmix64 } from './index/workload.ts'
import type { Chains, Request } from './index/workload.ts'
import { readOptions } from './load/options.ts'
import { median } from './load/summary.ts'

const WORKER_BLOCKS: Readonly<Record<number, number>> = { 8: 65_536, 64: 16_384, 1000: 8192 }
/** Replayed on a scratch index first, so that the figures are those of a process that has run for a while. */
const WARM_UP_REQUESTS = 2000

const { values: flags, positionals } = readOptions({
  allowPositionals: true,
  options: {
    workers: { type: 'string', default: '8,64,1000' },
    policy: { type: 'string', default: 'hash,sticky' },
    'event-blocks': { type: 'string', default: '0' },
    removal: { type: 'string', default: 'descending' },
    requests: { type: 'string' },
    'map-requests': { type: 'string', default: '600' },
    against: { type: 'string' },
    repeat: { type: 'string', default: '3' },
    best: { type: 'boolean', default: false },
    'no-find': { type: 'boolean', default: false },
    verify: { type: 'boolean', default: false },
    stall: { type: 'boolean', default: false },
    loads: { type: 'string' },
    beside: { type: 'string' },
  },
})
const options = {
  eventBlocks: Number(flags['event-blocks']),
  removal: flags.removal,
  hasFind: !flags['no-find'],
}

function checksum(subject: Subject, requests: readonly Request[], chains: Chains): string {
  const query = new Stretch()
  let sum = 0n
  for (const { groups } of requests) {
    subject.find(query.of(chains, groups, 'forward'))
    for (const [worker, score] of subject.scores()) {
      if (score > 0) sum += splitmix64((BigInt(worker) << 32n) | BigInt(score))
    }
  }
  return BigInt.asUintN(64, sum).toString(16).padStart(16, '0')
}

function heapBytes(): number {
  ;(globalThis as { gc?: () => void }).gc?.()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

type Create = (workers: number) => Subject

interface Workload {
  readonly workers: number
  readonly requests: readonly Request[]
  readonly chains: Chains
}

interface Measured {
  readonly row: Record<string, number>
  readonly subject: Subject
}

/** Replays the workload in turns against each subject. */
function measure(creates: readonly Create[], workload: Workload, rounds: number): Measured[] {
  const { workers, requests, chains } = workload
  const results = creates.map((create) => {
    replay(create(workers), requests.slice(0, WARM_UP_REQUESTS), chains, options)
    return { create, figures: [] as Figures[], bytes: [] as number[], subjects: [] as Subject[] }
  })
  for (let round = 0; round < rounds; round++) {
    for (const result of results) {
      const before = heapBytes()
      const subject = result.create(workers)
      result.figures.push(replay(subject, requests, chains, options))
      result.bytes.push((subject.bytes() ?? heapBytes() - before) / subject.entries())
      // Kept alive, because V8 discards optimised code when the object it was made for is collected.
      result.subjects.push(subject)
    }
  }
  return results.map(({ figures, bytes, subjects }) => {
    const bytesPerEntry = median(bytes)
    const rows = flags.best
      ? [rowOf(fastest(figures), bytesPerEntry)]
      : figures.map((f) => rowOf(f, bytesPerEntry))
    const row: Record<string, number> = {}
    for (const key of Object.keys(rows[0] ?? {})) row[key] = median(rows.map((r) => r[key] ?? 0))
    return { row, subject: subjects.at(-1) as Subject }
  })
}

function print(name: string, row: Readonly<Record<string, number>>, digits: number): void {
  const cells = Object.entries(row).map(
    ([key, value]) => `${key} ${value.toFixed(value < 100 ? digits : 0)}`,
  )
  console.log(`  ${name.padEnd(17)} ${cells.join(' | ')}`)
}

/** Prints a line for each subject, and how the first one compares with each other one. */
function report(measured: readonly Measured[]): void {
  for (const { subject, row } of measured) print(subject.name, row, 1)
  const [own, ...others] = measured
  for (const { subject, row } of others) {
    const ratios = Object.entries(row).map(([key, value]) => [key, (own?.row[key] ?? 0) / value])
    print(`of ${subject.name}`.slice(0, 17), Object.fromEntries(ratios), 2)
  }
}

async function benchTrace(tracePath: string): Promise<void> {
  const trace = readTrace(tracePath)
  const rounds = Number(flags.repeat)
  const creates: Create[] = [typedArrays]
  if (flags.against !== undefined) {
    const module: unknown = await import(pathToFileURL(resolve(flags.against)).href)
    creates.push((module as { createSubject: Create }).createSubject)
  }
  console.log(
    `node ${process.version}, ${process.arch}; ${flags.best ? 'best' : 'median'} of ${rounds} rounds`,
  )
  for (const policy of flags.policy.split(',')) {
    for (const workers of flags.workers.split(',').map(Number)) {
      const workerBlocks = WORKER_BLOCKS[workers] ?? 8192
      const all = playTrace(trace, { workers, workerBlocks, isSticky: policy === 'sticky' })
      const requests = all.slice(0, Number(flags.requests ?? all.length))
      const workload = { workers, requests, chains: trace.chains }
      console.log(`${policy}, ${workers} workers of ${workerBlocks} blocks`)
      if (flags.verify) console.log(`    op digest ${digestOf(requests, trace.chains)}`)
      const measured = measure(creates, workload, rounds)
      report(measured)
      const own = measured[0]?.subject
      if (own === undefined) continue
      console.log(`    ${own.describe?.() ?? ''}`)
      if (flags.verify) console.log(`    score checksum ${checksum(own, requests, trace.chains)}`)
      const part = requests.slice(0, Number(flags['map-requests']))
      if (part.length === 0) continue
      console.log(`  the first ${part.length} requests, one round`)
      report(measure([typedArrays, mapTree], { ...workload, requests: part }, 1))
    }
  }
}

const [tracePath] = positionals
if (flags.stall) measureStalls(Number(flags.repeat))
else if (flags.loads !== undefined) await measureLoads(flags.loads, flags.beside)
else if (tracePath !== undefined) await benchTrace(tracePath)
else {
  console.error(
    'bench/index.ts: which trace? Give a file with lines of {"hash_ids": [...]}, or --loads all, which needs none, or --stall',
  )
  process.exitCode = 2
}
