/**
 * Reads a file that an option names, as a whole, with a limit of bytes. The path may be a device without end, or a
 * pipe to which nobody writes: reading these ends with a sentence instead of never. `<(command)` of a shell works.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Far above a configuration, a list of keys or a chain of certificates. */
const BYTES_MAX = 16 * 1024 ** 2
const CHUNK_BYTES = 64 * 1024
const PAUSE_MS = 10
/** How long a pipe may give nothing. */
const SILENT_MS = 10_000

interface ReadLimits {
  readonly maxBytes?: number
  readonly silentMs?: number
}

/** Throws the system's error, or one of the same form. */
export function readSmallFile(path: string, limits: ReadLimits = {}): string {
  return readBoundedBytes(path, limits).toString('utf8')
}

/** `path` 0: standard input. */
export function readBoundedBytes(
  path: string | 0,
  { maxBytes = BYTES_MAX, silentMs = SILENT_MS }: ReadLimits = {},
): Buffer {
  // Without this flag, opening a pipe waits for its writer. Windows has neither: `undefined` counts as 0.
  const { O_RDONLY, O_NONBLOCK } = constants
  if (path === 0) return readToEnd(0, 'standard input', { maxBytes, silentMs })
  const file = openSync(path, O_RDONLY | O_NONBLOCK)
  try {
    return readToEnd(file, path, { maxBytes, silentMs })
  } finally {
    closeSync(file)
  }
}

function readToEnd(
  file: number,
  path: string,
  { maxBytes, silentMs }: Required<ReadLimits>,
): Buffer {
  const chunks: Buffer[] = []
  let bytes = 0
  let heardMs = performance.now()
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  for (;;) {
    const count = readOrNull(file, chunk)
    if (count === 0 && (bytes > 0 || !isPipe(file))) return Buffer.concat(chunks)
    if (count === null || count === 0) {
      if (performance.now() - heardMs > silentMs) {
        throw failure('ETIMEDOUT', `nothing was written for ${silentMs / 1000} s`, path)
      }
      Atomics.wait(PAUSE, 0, 0, PAUSE_MS)
      continue
    }
    heardMs = performance.now()
    bytes += count
    if (bytes > maxBytes) throw failure('EFBIG', `more than ${maxBytes} bytes`, path)
    // Copied, because a pipe may give a few bytes at a time.
    chunks.push(Buffer.from(chunk.subarray(0, count)))
  }
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4))

/** Null: the writer of a pipe has written nothing yet. */
function readOrNull(file: number, into: Buffer): number | null {
  try {
    return readSync(file, into)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return null
    throw error
  }
}

function failure(code: string, why: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${why}, read '${path}'`), { code })
}

/** A named pipe without a writer reads as empty. */
function isPipe(file: number): boolean {
  return fstatSync(file).isFIFO()
}
