/**
 * The page of the console, which the build places beside the program (`scripts/bundle.js`).
 */
import { readFileSync } from 'node:fs'

let page: string | null | undefined

/** Null: this program is not the bundle and has no page. The file is read once. */
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
