/**
 * The user's questions of earlier conversations, for the arrow keys. They are kept in a file that only the user
 * can read.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { makeFolders } from '../../os/index.ts'

const LINES_MAX = 500

function historyFile(): string {
  const state = process.env['XDG_STATE_HOME'] ?? join(homedir(), '.local', 'state')
  return join(state, 'baton', 'chat-history')
}

/** Newest first, as readline expects it; empty when there is no file. */
export function readHistory(): string[] {
  const file = historyFile()
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean).slice(-LINES_MAX).toReversed()
  } catch {
    return []
  }
}

/** A history that cannot be written is ignored, so that the conversation does not fail. */
export function writeHistory(newestFirst: readonly string[]): void {
  const file = historyFile()
  try {
    makeFolders(dirname(file))
    const lines = newestFirst.slice(0, LINES_MAX).toReversed()
    writeFileSync(file, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 })
  } catch {
    // The home folder is not writable.
  }
}
