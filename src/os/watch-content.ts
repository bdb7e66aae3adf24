/**
 * Notices that the content of a file is another one than before, by reading it every second.
 *
 * Not by times of files or a system's watcher: a watcher's first look may come after the change, times are coarse, and
 * files that are replaced by renaming are other files. Meant for small files: keys, certificates.
 */
import { readFileSync } from 'node:fs'

const LOOK_MS = 1000

/**
 * `known`: what has been read of it already; null stands for a file that cannot be read. Calls once for each other
 * content. Returns how to end it.
 */
export function watchContent(
  path: string,
  known: string | null,
  onChange: () => void,
  lookMs = LOOK_MS,
): () => void {
  let last = known
  const timer = setInterval(() => {
    const text = readOrNull(path)
    if (text === last) return
    last = text
    onChange()
  }, lookMs)
  timer.unref()
  return () => clearInterval(timer)
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
