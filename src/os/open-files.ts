/** How many files and sockets this process may have open (`ulimit -n`), and the sentence for when it has none left. */
import { readFileSync } from 'node:fs'
import { messageOf } from '../base/index.ts'

/**
 * Null: not known (other systems than Linux), or no limit. Node has raised the soft limit to the hard one before any
 * code runs.
 */
export function openFilesMax(): number | null {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === undefined ? null : Number(soft)
  } catch {
    return null
  }
}

/** The message of an error of the system, with the remedy if the process may open no more files. */
export function fileErrorText(thrown: unknown): string {
  const text = messageOf(thrown)
  const { code } = (thrown ?? {}) as NodeJS.ErrnoException
  if (code === 'EMFILE') return `${text}; raise the limit of open files of this process (ulimit -n)`
  if (code === 'ENFILE') return `${text}; raise the limit of open files of this machine`
  return text
}
