/**
 * The folder of this package, wherever the running file lies: in the program `dist/bin/`, in the library `dist/lib/`, or a source.
 */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

function findPackageRoot(): string {
  const start = dirname(fileURLToPath(import.meta.url))
  for (let folder = start; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder
    if (dirname(folder) === folder) throw new Error(`no package.json above ${start}`)
  }
}

export const PACKAGE_ROOT = findPackageRoot()
