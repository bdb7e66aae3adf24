/**
 * Records one frame of every message as this version writes it, for tests of later versions:
 *
 * npx tsx scripts/record-wire.ts 0.2 > test/vectors/wire-0.2.json
 *
 * Run it at the release of a minor version; `test/wire/wire-versions.test.ts` reads all recordings.
 */
import * as wire from '../src/wire/index.ts'
import { WIRE_CASES } from '../test/wire/wire-cases.ts'

const [version = ''] = process.argv.slice(2)
const frames = WIRE_CASES.map((one) => {
  const writer = new wire.FrameWriter()
  one.encode(wire, writer)
  return { name: one.name, frame: Buffer.from(writer.take() ?? []).toString('hex') }
})
console.log(JSON.stringify({ version, frames }, null, 2))
