/**
 * The folder in which the processes of one `baton serve` find each other: named by the user, or one of its own.
 *
 * A folder of its own goes when the server ends, however hastily. Only a killed server leaves it; the process id in the
 * name tells the next one that nobody needs it any more.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isProcessAlive } from './process-alive.ts'

export interface FleetFolder {
  readonly path: string
  /** Of a folder that the user named: nothing. Idempotent, and quick enough for a process that exits. */
  remove(): void
}

const PREFIX = 'baton-fleet-'

/** `named`: the user's own; null: one that lives as long as this process. `parent` is where such folders are. */
export function openFleetFolder(named: string | null, parent: string = tmpdir()): FleetFolder {
  if (named !== null) return { path: named, remove: () => undefined }
  sweep(parent)
  const path = mkdtempSync(join(parent, `${PREFIX}${process.pid}-`))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** Removes what killed servers of this user have left. */
function sweep(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1]
    if (pid === undefined || isProcessAlive(Number(pid))) continue
    const path = join(parent, name)
    const owner = lstatSync(path, { throwIfNoEntry: false })?.uid
    if (owner === process.getuid?.()) rmSync(path, { recursive: true, force: true })
  }
}
