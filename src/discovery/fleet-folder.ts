/**
 * The folder of a fleet: created when it does not exist, with atomic writes.
 *
 * Whoever may write into the folder can add workers, so it is created with access for its owner only (0700). Its
 * parent is not created, because a path without a parent is probably mistyped.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, readlink, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { BatonError } from '../base/index.ts'

/** True when it was created now. Throws `config.invalid`. */
export async function makeFleetFolder(folder: string): Promise<boolean> {
  try {
    // Not `recursive`, which never returns where nothing can be created (/proc).
    await mkdir(folder, { mode: 0o700 })
    return true
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await isFolder(folder))) return false
    const why = await obstacle(folder, code ?? String(thrown))
    const message = `${folder} cannot be used as the folder of a fleet: ${why}`
    throw new BatonError('config.invalid', message, { cause: thrown })
  }
}

/** Why it could not be created. */
async function obstacle(folder: string, code: string): Promise<string> {
  if (code === 'EEXIST') return `it is ${(await linkAt(folder)) ?? 'a file'}`
  const parent = dirname(resolve(folder))
  if (code !== 'ENOENT' || (await isFolder(parent))) return code
  const link = await linkAt(parent)
  return link === null
    ? `${parent} does not exist: create it, or correct the path`
    : `${parent} is ${link}`
}

/** Null: there is no link. */
async function linkAt(path: string): Promise<string | null> {
  return await readlink(path).then(
    (target) => `a link to ${target}, which is not a folder: create that one, or correct the link`,
    () => null,
  )
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  )
}

/** Readers see the old or the new text, never a part. A failed write leaves no temporary file. */
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

function writeFault(path: string, cause: NodeJS.ErrnoException): BatonError {
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
    default: {
      // The system's message about a write has no path.
      const what = `${path} cannot be written (${cause.code ?? String(cause)})`
      const advice = ': raise or remove the limit of the size of files (ulimit -f)'
      const text = cause.code === 'EFBIG' ? what + advice : what
      return new BatonError('discovery.unavailable', text, { cause })
    }
  }
}
