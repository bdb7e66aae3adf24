/**
 * Watches the content of a small file (keys, certificates) by reading it every second.
 *
 * File times and system watchers are not used: a watcher may start after the change, times are coarse, and a file
 * replaced by renaming is a new file.
 */
import { readSmallFile } from './read-small-file.ts'

const LOOK_MS = 1000

/**
 * `known`: the content read before; null: the file could not be read. Calls back once for each new content. Returns
 * a function that ends the watch.
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
    return readSmallFile(path, { silentMs: 0 })
  } catch {
    return null
  }
}
