/**
 * Questions of earlier talks, for the arrow keys: a file of the user's, readable by nobody else.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

const LINES_MAX = 500

function historyFile(): string {
  const state = process.env['XDG_STATE_HOME'] ?? join(homedir(), '.local', 'state')
  return join(state, 'baton', 'chat-history')
}

/** The newest first, as readline wants them; none when there is no file. */
export function readHistory(file = historyFile()): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean).slice(-LINES_MAX).toReversed()
  } catch {
    return []
  }
}

/** A talk does not fail because its history cannot be written. */
export function writeHistory(newestFirst: readonly string[], file = historyFile()): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    const lines = newestFirst.slice(0, LINES_MAX).toReversed()
    writeFileSync(file, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 })
  } catch {
    // A home that cannot be written to.
  }
}
