/**
 * Compares routing policies, above all costs in milliseconds with costs in blocks: every load of `routing/loads.ts`
 * with every policy of `routing/policies.ts`, paired over seeds. The real router in front of simulated workers, in
 * virtual time.
 * Prints the matrix of docs/routing-quality.md.
 *
 *   npx tsx bench/routing-quality.ts [--trace conversation_trace.jsonl] [--seeds 3] [--requests 800] [--quick]
 *     [--only 'documents|chat'] [--workers 8] [--policies time,weighed] [--jobs 2] [--json FILE] [--earlier FILE]
 *   npx tsx bench/routing-quality.ts --random 200 [--from 0]   loads with random parameters (`routing/random-loads.ts`)
 *   npx tsx bench/routing-quality.ts --random 60 --bound   also what no router can beat (`routing/lower-bound.ts`)
 *   npx tsx bench/routing-quality.ts --random 60 --seeds 4 --noise   how much is chance (`routing/noise.ts`)
 *
 * The trace (Mooncake's format) may also be set by BATON_CONVERSATION_TRACE; without one its loads are skipped.
 * `--earlier` names the `--json` output of an earlier run, from which results of policies that are not run are taken.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { readOptions } from './load/options.ts'
import type { CellOrder } from './routing/cell.ts'
import type { CellFigures, Cells } from './routing/figures.ts'
import { qualityLoads } from './routing/loads.ts'
import { randomLoads } from './routing/random-loads.ts'
import { formatMatrix, formatSummary } from './routing/matrix.ts'
import { formatNoise, withRepeated } from './routing/noise.ts'
import { BOUND, POLICIES } from './routing/policies.ts'

const { values } = readOptions({
  options: {
    trace: { type: 'string' },
    seeds: { type: 'string', default: '3' },
    requests: { type: 'string', default: '800' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    workers: { type: 'string' },
    policies: { type: 'string', default: Object.keys(POLICIES).join(',') },
    jobs: { type: 'string', default: String(availableParallelism()) },
    json: { type: 'string' },
    earlier: { type: 'string' },
    random: { type: 'string' },
    from: { type: 'string', default: '0' },
    bound: { type: 'boolean', default: false },
    noise: { type: 'boolean', default: false },
  },
})
if (values.trace !== undefined) process.env['BATON_CONVERSATION_TRACE'] = resolve(values.trace)
const [seeds, requests] = values.quick ? [2, 300] : [Number(values.seeds), Number(values.requests)]
const isRandom = values.random !== undefined
const from = isRandom ? Number(values.from) : 0
const loads = isRandom ? randomLoads(from, Number(values.random)) : qualityLoads()
const wanted = new RegExp(values.only)
const chosen = loads.flatMap(({ name, workers }, load) =>
  wanted.test(name) && (values.workers === undefined || Number(values.workers) === workers)
    ? [load]
    : [],
)
if (values.noise && seeds < 2) throw new Error('--noise needs two seeds: it compares them')
const named = values.policies.split(',')
const policies = [...(values.noise ? withRepeated(named) : named), ...(values.bound ? [BOUND] : [])]
const orders: CellOrder[] = chosen.flatMap((load) =>
  policies.flatMap((policy) =>
    Array.from({ length: seeds }, (_, seed) => ({
      load: from + load,
      isRandom,
      policy,
      seed,
      requests,
    })),
  ),
)

const cells: Record<string, Record<string, CellFigures[]>> = {}
if (values.earlier !== undefined && existsSync(values.earlier))
  Object.assign(cells, JSON.parse(readFileSync(values.earlier, 'utf8')))
const labelOf = (load: number): string => {
  const { name, workers } = loads[load - from]!
  return `${name}, ${workers}`
}

const folder = mkdtempSync(join(tmpdir(), 'baton-routing-'))
const beganMs = performance.now()
try {
  const program = join(folder, 'cell.js')
  const input = fileURLToPath(new URL('routing/cell.ts', import.meta.url))
  const build = await rolldown({ input, platform: 'node' })
  await build.write({ file: program, format: 'esm' })
  await build.close()
  for (const { load, policy } of orders) (cells[labelOf(load)] ??= {})[policy] = []
  let next = 0
  // The longest cells first; otherwise the last process would work alone at the end.
  const queue = orders.toSorted(
    (a, b) => loads[b.load - from]!.workers - loads[a.load - from]!.workers,
  )
  await Promise.all(
    Array.from({ length: Number(values.jobs) }, async () => {
      const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
      const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      for (let order = queue[next++]; order !== undefined; order = queue[next++]) {
        child.stdin.write(`${JSON.stringify(order)}\n`)
        const { value, done } = await answers.next()
        if (done === true) throw new Error(`the cell ${JSON.stringify(order)} has failed`)
        cells[labelOf(order.load)]![order.policy]![order.seed] = JSON.parse(value) as CellFigures
      }
      child.stdin.end()
    }),
  )
} finally {
  rmSync(folder, { recursive: true })
}
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(cells))
const shown: Cells = Object.fromEntries(
  chosen.map((load) => [labelOf(from + load), cells[labelOf(from + load)] ?? {}]),
)
console.log(isRandom ? formatSummary(shown) : formatMatrix(shown))
if (values.noise) console.log(`\n${formatNoise(shown)}`)
console.error(`${((performance.now() - beganMs) / 1000).toFixed(0)} s`)
