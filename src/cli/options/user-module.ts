/**
 * Imports the modules that options name (`--engine`, `--scorer`, `--filter`, `--picker`, `--module` of boostr).
 *
 * `import()` reads a path to its end, whatever it is: it would wait for the writer of a pipe, where no signal reaches
 * the process, and read `/dev/zero` until the memory is full.
 */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { BatonError } from '../../base/index.ts'
import { firstLineOf } from './first-line.ts'

/** As for any other file of an option; far above a bundle with its libraries. */
const BYTES_MAX = 16 * 1024 ** 2

/** `from`: option and file, for the error. Throws `config.invalid`, a message of one line. */
export async function importUserModule(
  file: string,
  from: string,
): Promise<Readonly<Record<string, unknown>>> {
  const path = resolve(file)
  const fault = faultOf(path)
  if (fault !== null) throw new BatonError('config.invalid', `${from}: ${fault}`)
  try {
    return (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>
  } catch (cause) {
    const message = `${from}: cannot be loaded: ${firstLineOf(cause)}`
    throw new BatonError('config.invalid', message, { cause })
  }
}

/** Null: a file of a usual size. Links are followed. */
function faultOf(path: string): string | null {
  let stats
  try {
    stats = statSync(path)
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    return isMissing ? 'the file does not exist' : `cannot be read: ${firstLineOf(error)}`
  }
  if (stats.isDirectory()) return 'is a folder; give the path of its file'
  if (!stats.isFile()) return 'is not a file'
  return stats.size > BYTES_MAX ? `the file is larger than ${BYTES_MAX} bytes` : null
}
