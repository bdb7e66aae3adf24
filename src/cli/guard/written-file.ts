/** Writes files that a user has named; an error names the file, which the system's message about a write leaves out. */
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { BatonError } from '../../base/index.ts'

const FULL: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EFBIG']

/** Throws `host.disk_full`, or `config.invalid` when the file cannot be written for another reason. */
export function writeFile(path: string, pieces: Iterable<string>): void {
  try {
    const file = openSync(path, 'w')
    try {
      for (const piece of pieces) writeFileSync(file, piece)
    } finally {
      closeSync(file)
    }
  } catch (cause) {
    const { code, syscall } = cause as NodeJS.ErrnoException
    // Thrown while a piece was made.
    if (syscall === undefined) throw cause
    const text = `${path} cannot be written (${code}): give another file`
    throw new BatonError(FULL.includes(code) ? 'host.disk_full' : 'config.invalid', text, { cause })
  }
}
