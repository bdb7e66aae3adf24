/**
 * Standard output that cannot be written: its reader has ended (`baton config | head`), or its disk is full.
 *
 * A server continues without it. For every other command the output is the result, so the command fails when a part of
 * it is missing; a reader that ends early has read what it wanted.
 */
import { writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'

const lost = new AbortController()

/** Fires with the first error: a command that prints until it is stopped, or asks for its user only, ends then. */
export const outputLost: AbortSignal = lost.signal

/** Called once, before anything is printed. Without listeners an error of a stream would end the process. */
export function outliveOutput(): void {
  const stdout: Writable = process.stdout
  process.stderr.on('error', () => undefined)
  stdout.on('error', (error) => lost.abort(error))
  // Terminals and pipes are sockets.
  if (!(stdout instanceof Socket)) stdout._write = writeAll
}

/** Node's stream for a file ignores that only a part was written, as when the disk becomes full. */
function writeAll(bytes: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
  try {
    writeFileSync(1, bytes)
  } catch (error) {
    done(error as Error)
    return
  }
  done()
}

/** Waits until everything is written; the sentence for output that is missing, null when its reader has all it wants. */
export async function outputFault(): Promise<string | null> {
  await new Promise<void>((resolve) => process.stdout.write('', () => resolve()))
  // A stream reports an error after it has called back for it.
  await new Promise((resolve) => setImmediate(resolve))
  if (!lost.signal.aborted) return null
  const { code, message } = lost.signal.reason as NodeJS.ErrnoException
  if (code === 'EPIPE') return null
  return `the output could not be written (${code ?? message}): run the command again with another output`
}
