/**
 * Accuracy of the simulator: the same requests in the simulator and on another system:
 *
 *   live    `baton serve --engine sim`, which computes in real time
 *   engine  `baton serve --engine llamacpp`, with the timing that `baton profile` measured there just before
 *   dynamo  Dynamo's own replay (`--dynamo PYTHON`: a Python that has the package ai-dynamo)
 *
 *   npm run build && npx tsx bench/truth.ts [live] [engine] [dynamo] [--repeats 1] [--dynamo PYTHON] [--trace FILE]
 *     [--model FILE.gguf] [--folder DIR]
 *
 * Each load is sent with `baton bench` and simulated with `baton replay`, as a user would. Live measurements are kept
 * in the folder and not repeated, so that a comparison can be repeated and an interrupted run continues. Exit code 1:
 * a difference exceeds its limit.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readOptions } from './load/options.ts'
import { isWithin, truthTable } from './truth/compare-runs.ts'
import type { TruthRow } from './truth/compare-runs.ts'
import { dynamoTruth } from './truth/dynamo-truth.ts'
import { engineTruth } from './truth/engine-truth.ts'
import { liveTruth } from './truth/live-truth.ts'

const { values, positionals } = readOptions({
  allowPositionals: true,
  options: {
    repeats: { type: 'string', default: '1' },
    dynamo: { type: 'string' },
    trace: { type: 'string' },
    model: { type: 'string' },
    folder: { type: 'string' },
  },
})
const wanted = positionals.length === 0 ? ['live', 'engine', 'dynamo'] : positionals
const folder = values.folder ?? mkdtempSync(join(tmpdir(), 'baton-truth-'))
const options = { ...values, folder, repeats: Number(values.repeats) }
const rows: TruthRow[] = []
try {
  for (const part of wanted) {
    const made =
      part === 'live'
        ? await liveTruth(options)
        : part === 'engine'
          ? await engineTruth(options)
          : await dynamoTruth(options)
    if (made.length > 0) console.log(`\n${part}\n\n${truthTable(made)}`)
    rows.push(...made)
  }
} finally {
  if (values.folder === undefined) rmSync(folder, { recursive: true })
}
process.exitCode = rows.every(isWithin) ? 0 : 1
