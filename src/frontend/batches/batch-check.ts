/** Validates a batch's whole input file before any request of it runs. */
import { BatonError } from '../../base/index.ts'
import type { BatchFault } from './batch-record.ts'
import { isBlank, readBatchLine } from './batch-line.ts'
import { byteLines } from './byte-lines.ts'

interface CheckedInput {
  readonly total: number
  readonly model: string | null
  readonly faults: readonly BatchFault[]
}

export const LINES_MAX = 50_000
/** At most this many faults are reported; further ones are usually of the same kind. */
const FAULTS_MAX = 100

export async function checkInput(
  content: AsyncIterable<Uint8Array>,
  endpoint: string,
  lineBytesMax: number,
): Promise<CheckedInput> {
  const faults: BatchFault[] = []
  const customIds = new Set<string>()
  let model: string | null = null
  let line = 0
  let total = 0
  try {
    for await (const bytes of byteLines(content, lineBytesMax)) {
      line += 1
      if (isBlank(bytes)) continue
      total += 1
      if (total > LINES_MAX) {
        faults.push(fault('too_many_tasks', `a batch has at most ${LINES_MAX} lines`))
        break
      }
      const read = readBatchLine(bytes, endpoint)
      if ('code' in read) faults.push({ ...read, line })
      else if (customIds.has(read.customId)) {
        const message = `the custom_id ${JSON.stringify(read.customId)} was used on an earlier line`
        faults.push({ code: 'duplicate_custom_id', message, line, param: 'custom_id' })
      } else {
        customIds.add(read.customId)
        model ??= read.model ?? null
      }
      if (faults.length >= FAULTS_MAX) break
    }
  } catch (thrown) {
    const { code, message } = BatonError.from(thrown)
    if (code !== 'request.payload_too_large') throw thrown
    faults.push({ code: 'line_too_long', message, line: line + 1, param: null })
  }
  if (total === 0 && faults.length === 0)
    faults.push(fault('empty_file', 'the input file has no lines'))
  return { total, model, faults }
}

function fault(code: string, message: string): BatchFault {
  return { code, message, line: null, param: null }
}
