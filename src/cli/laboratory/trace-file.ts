/**
 * Reads the lines of a trace from a file or standard input, optionally compressed with gzip.
 */
import { gunzipSync } from 'node:zlib'
import { BatonError } from '../../base/index.ts'
import { readBoundedBytes } from '../../os/index.ts'

const LINE_END = 0x0a
/** A program that writes the trace may take its time. */
const LIMITS = { maxBytes: 1024 ** 3, silentMs: Infinity }

/** Line by line, because a JavaScript string cannot be longer than half a gigabyte. */
export function readTraceLines(path: string): string[] {
  const bytes = readBytes(path)
  const lines: string[] = []
  for (let from = 0; from <= bytes.length;) {
    const end = bytes.indexOf(LINE_END, from)
    const until = end < 0 ? bytes.length : end
    lines.push(bytes.toString('utf8', from, until))
    from = until + 1
  }
  return lines
}

function readBytes(path: string): Buffer {
  try {
    const bytes = readBoundedBytes(path === '-' ? 0 : path, LIMITS)
    return bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new BatonError('config.invalid', `trace ${path}: not readable${reasonOf(code)}`, {
      cause,
    })
  }
}

function reasonOf(code: string | undefined): string {
  if (code === 'ENOENT') return ': the file does not exist'
  if (code === 'EISDIR') return ': it is a folder'
  if (code === 'EFBIG') return `: it has more than ${LIMITS.maxBytes} bytes`
  return code === undefined ? '' : ` (${code})`
}
