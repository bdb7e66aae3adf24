/**
 * A folder that belongs to one process and goes with it.
 *
 * A process that is killed leaves its folder. Process id and PID namespace in the name tell the next one that asks for a
 * folder with the same prefix that it is no longer needed.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { BatonError } from '../base/index.ts'
import { isProcessAlive } from './process-alive.ts'
import { pidNamespace } from './process-place.ts'

export interface ProcessFolder {
  readonly path: string
  /** With all that is in it. Idempotent, and quick enough for a process that exits. */
  remove(): void
}

/** Only this user can enter it. */
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
      `no folder can be made in ${parent} (${code}): name another with TMPDIR`,
      { cause: error },
    )
  }
}

function namespaceName(): string {
  return pidNamespace() || '0'
}

/** Removes what killed processes of this user have left. Ids of another PID namespace say nothing here. */
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
