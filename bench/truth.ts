/**
 * Is the laboratory true? The same requests in the laboratory and
 *
 *   live    on `baton serve --engine sim`, which computes at its real pace
 *   engine  on `baton serve --engine llamacpp`, with the timing that `baton profile` measured there just before
 *   dynamo  in Dynamo's own replay (`--dynamo PYTHON`: a Python that has the package ai-dynamo)
 *
 *   npm run build && npx tsx bench/truth.ts [live] [engine] [dynamo] [--repeats 1] [--dynamo PYTHON] [--trace FILE] [--model FILE.gguf]
 *     [--folder DIR]
 *
 * Each load is sent with `baton bench` and simulated with `baton replay`, as a user would. What was measured live is kept
 * in the folder and not measured again: so a comparison can be repeated, and a measurement goes on where it was cut off.
 * Exit code 1: a difference is over its limit.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isWithin, truthTable } from './truth/compare-runs.ts'
import type { TruthRow } from './truth/compare-runs.ts'
import { dynamoTruth } from './truth/dynamo-truth.ts'
import { engineTruth } from './truth/engine-truth.ts'
import { liveTruth } from './truth/live-truth.ts'

const { values, positionals } = parseArgs({
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
