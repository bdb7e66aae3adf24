/**
 * Speed of the simulator: requests per CPU second and peak memory of whole fleets in virtual time, each in its own
 * process; and of the fleet with faults that `src/sim/fleet/faults.test.ts` runs ten times.
 *
 *   npx tsx bench/sim.ts [conversation_trace.jsonl] [--workers 10,100,1000,10000] [--limit 0] [--faults 10000] [--mode kv]
 *
 * A trace has one JSON object per line (timestamp, input_length, output_length, hash_ids); requests with the same
 * timestamp are spread up to the next one. Without a trace a generated workload of 12,000 requests is used. `--limit 0`
 * uses all requests. CPU is that of all threads of the process, with compilation and garbage collection but without
 * reading the trace. The code runs bundled, like the program. `--profile DIR` writes a CPU profile of each case.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { readOptions } from './load/options.ts'
import type { CaseOptions } from './sim/case.ts'

const { values, positionals } = readOptions({
  allowPositionals: true,
  options: {
    workers: { type: 'string', default: '10,100,1000,10000' },
    limit: { type: 'string', default: '0' },
    faults: { type: 'string', default: '10000' },
    mode: { type: 'string', default: 'kv' },
    profile: { type: 'string' },
  },
})

const folder = mkdtempSync(join(tmpdir(), 'baton-bench-sim-'))
try {
  const input = fileURLToPath(new URL('sim/case.ts', import.meta.url))
  const build = await rolldown({ input, platform: 'node' })
  const program = join(folder, 'case.js')
  await build.write({ file: program, format: 'esm' })
  await build.close()
  const [trace] = positionals
  const options: CaseOptions = {
    ...(trace === undefined ? {} : { trace: resolve(trace) }),
    limit: Number(values.limit),
    faults: Number(values.faults),
    mode: values.mode as CaseOptions['mode'],
  }
  const cases = values.workers.split(',').filter((count) => count !== '')
  if (options.faults > 0) cases.push('faults')
  const flags =
    values.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${resolve(values.profile)}`]
  for (const only of cases)
    execFileSync(process.execPath, [...flags, program, only, JSON.stringify(options)], {
      stdio: 'inherit',
    })
} finally {
  rmSync(folder, { recursive: true })
}
