/**
 * A folder that belongs to one process and goes with it.
 *
 * A process that is killed leaves its folder. The process id in the name tells the next one that asks for a folder with
 * the same prefix that nobody needs it any more.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isProcessAlive } from './discovery/process-alive.ts'

export interface ProcessFolder {
  readonly path: string
  /** With all that is in it. Idempotent, and quick enough for a process that exits. */
  remove(): void
}

/** Only this user can enter it. */
export function makeProcessFolder(parent: string, prefix: string): ProcessFolder {
  sweep(parent, prefix)
  const path = mkdtempSync(join(parent, `${prefix}${process.pid}-`))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** Removes what killed processes of this user have left. */
function sweep(parent: string, prefix: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix)) continue
    const pid = /^(\d+)-/.exec(name.slice(prefix.length))?.[1]
    if (pid === undefined || isProcessAlive(Number(pid))) continue
    const path = join(parent, name)
    const owner = lstatSync(path, { throwIfNoEntry: false })?.uid
    if (owner === process.getuid?.()) rmSync(path, { recursive: true, force: true })
  }
}
