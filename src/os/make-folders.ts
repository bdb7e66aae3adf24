/**
 * Creates a folder and its missing parents, with access for this user only. Node's `recursive` does not return where
 * nothing can be created (/proc).
 */
import { mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/** Throws the error of the file system, also when something else has the place of a folder. */
export function makeFolders(path: string): void {
  const place = resolve(path)
  const found = statSync(place, { throwIfNoEntry: false })
  if (found?.isDirectory() === true) return
  if (found !== undefined) throw new Error(`${place} is not a folder`)
  if (dirname(place) !== place) makeFolders(dirname(place))
  try {
    mkdirSync(place, { mode: 0o700 })
  } catch (thrown) {
    // Another process was faster.
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown
  }
}
