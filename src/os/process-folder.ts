/**
 * A folder that belongs to one process and is deleted with it.
 *
 * A killed process leaves its folder behind. Its name contains process id and PID namespace, so that the next
 * process with the same prefix can tell that it is unused.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { BatonError } from '../base/index.ts'
import { isProcessAlive } from './process-alive.ts'
import { pidNamespace } from './process-place.ts'

export interface ProcessFolder {
  readonly path: string
  /** Deletes the folder with its content. Idempotent, and synchronous for use at exit. */
  remove(): void
}

/** Only this user can access it. */
export function makeProcessFolder(parent: string, prefix: string): ProcessFolder {
  const path = makeIn(parent, prefix)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** Throws `config.invalid` when the folder for temporary files cannot be used. */
function makeIn(parent: string, prefix: string): string {
  try {
    sweep(parent, prefix)
    return mkdtempSync(join(parent, `${prefix}${process.pid}-${namespaceName()}-`))
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException
    if (code === 'ENOSPC') throw new BatonError('host.disk_full', `no space left in ${parent}`)
    throw new BatonError(
      'config.invalid',
      `no folder can be created in ${parent} (${code}): choose another one with TMPDIR`,
      { cause: error },
    )
  }
}

function namespaceName(): string {
  return pidNamespace() || '0'
}

/**
 * Deletes the folders of this user's killed processes. Process ids of another PID namespace cannot be checked here.
 */
function sweep(parent: string, prefix: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix)) continue
    const [, pid, namespace] = /^(\d+)-(\d+)-/.exec(name.slice(prefix.length)) ?? []
    if (pid === undefined || namespace !== namespaceName() || isProcessAlive(Number(pid))) continue
    const path = join(parent, name)
    const owner = lstatSync(path, { throwIfNoEntry: false })?.uid
    if (owner === process.getuid?.()) rmSync(path, { recursive: true, force: true })
  }
}
