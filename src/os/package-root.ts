/**
 * The folder of this package for a file in the program (`dist/bin/`), in the library (`dist/lib/`) or in the
 * sources.
 */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

function findPackageRoot(): string {
  const start = dirname(fileURLToPath(import.meta.url))
  for (let folder = start; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder
    if (dirname(folder) === folder) throw new Error(`there is no package.json above ${start}`)
  }
}

export const PACKAGE_ROOT = findPackageRoot()
