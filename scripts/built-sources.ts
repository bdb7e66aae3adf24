/**
 * A plugin for Vitest: a test's import of a file of `src/` gets what the compiler made of it in `dist/`, loaded by Node itself.
 *
 * Vitest would transform each of 900 files, and its modules read every imported name through a getter: a third of the tests' CPU.
 */
import { existsSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SRC = join(ROOT, 'src')

export interface BuiltSources {
  readonly name: string
  readonly enforce: 'pre'
  resolveId(
    source: string,
    importer: string | undefined,
  ): { readonly id: string; readonly external: true } | null
}

/** What the compiler writes; not the tests, nor what is not a module. */
export function builtSources(): BuiltSources {
  return {
    name: 'built-sources',
    enforce: 'pre',
    resolveId: (source, importer) => {
      const id = builtOf(source, importer)
      return id === null ? null : { id, external: true }
    },
  }
}

function builtOf(source: string, importer = ROOT): string | null {
  if (!/^[./].*(?<!\.test)\.ts$/.test(source)) return null
  const path = relative(SRC, resolve(dirname(importer), source))
  if (path.startsWith('..')) return null
  const built = join(ROOT, 'dist', path.replace(/\.ts$/, '.js'))
  // A source that was never compiled stays what it is; Node refuses to load a file of `src/` that imports others.
  return existsSync(built) ? built : null
}
