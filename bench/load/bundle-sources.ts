/**
 * Finds the source of a function in the bundle, with the source maps next to it.
 */
import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import type { SourceMapPayload } from 'node:module'
import { fileURLToPath } from 'node:url'

export class BundleSources {
  readonly #maps = new Map<string, SourceMap | null>()

  /** As the bundle names it (`../../src/router/…`); null without a map or without an entry. */
  sourceOf(url: string, line: number, column: number): string | null {
    if (!url.startsWith('file:')) return null
    const entry = this.#mapOf(url)?.findEntry(line, column)
    return entry !== undefined && 'originalSource' in entry ? entry.originalSource : null
  }

  #mapOf(url: string): SourceMap | null {
    const known = this.#maps.get(url)
    if (known !== undefined) return known
    const map = readMap(`${fileURLToPath(url)}.map`)
    this.#maps.set(url, map)
    return map
  }
}

function readMap(path: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(path, 'utf8')) as SourceMapPayload)
  } catch {
    return null
  }
}
