/**
 * The folder of a fleet: made when it is not there, written to whole or not at all.
 *
 * Who may write into the folder may add workers, so it is made for its owner only (0700). Its parent is not made: a path
 * that leads nowhere is a mistyped one.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { BatonError } from '../base/index.ts'

/** True when it was made just now. Throws `config.invalid`. */
export async function makeFleetFolder(folder: string): Promise<boolean> {
  try {
    // Not `recursive`, which never returns in places where nothing can be made (/proc).
    await mkdir(folder, { mode: 0o700 })
    return true
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await isFolder(folder))) return false
    const parent = dirname(resolve(folder))
    const why =
      code === 'ENOENT' && !(await isFolder(parent))
        ? `${parent} does not exist: create it, or correct the path`
        : (code ?? String(thrown))
    const message = `${folder} cannot be the folder of a fleet: ${code === 'EEXIST' ? 'it is a file' : why}`
    throw new BatonError('config.invalid', message, { cause: thrown })
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  )
}

/** Readers see the old text or the new one. What could not be written leaves no temporary file. */
export async function writeWhole(folder: string, path: string, text: string): Promise<void> {
  const temporary = join(folder, `.${randomUUID()}.tmp`)
  try {
    await writeFile(temporary, text, { mode: 0o600 })
    await rename(temporary, path)
  } catch (thrown) {
    await rm(temporary, { force: true }).catch(() => undefined)
    throw writeFault(path, thrown as NodeJS.ErrnoException)
  }
}

function writeFault(path: string, cause: NodeJS.ErrnoException): Error {
  switch (cause.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new BatonError('host.disk_full', `no space left to write ${path}`, { cause })
    case 'EACCES':
    case 'EPERM':
    case 'EROFS': {
      const text = `${path} cannot be written (${cause.code}): the folder of a fleet must be writable for its workers`
      return new BatonError('config.invalid', text, { cause })
    }
    default:
      return cause
  }
}
