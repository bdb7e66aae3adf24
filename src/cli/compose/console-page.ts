/**
 * The console's page, which the build puts beside the program (`scripts/bundle.js`).
 */
import { readFileSync } from 'node:fs'

let page: string | null | undefined

/** Null: what runs is not the bundle. Read once. */
export function consolePage(): string | null {
  page ??= read()
  return page
}

function read(): string | null {
  try {
    return readFileSync(new URL('./console.html', import.meta.url), 'utf8')
  } catch {
    return null
  }
}
