/**
 * Locates the fields of a `multipart/form-data` body. The content of files is not read.
 */
import { asciiOf } from './json-members.ts'
import type { Span } from './json-members.ts'

export interface PartHead {
  readonly name: string
  /** Set for a file. */
  readonly fileName?: string
}

export interface FormPart extends Span, PartHead {
  readonly valueStart: number
  readonly valueEnd: number
}

export const HEAD_BYTES_MAX = 8192
export const PARTS_MAX = 1000
const LF = 10

/** The boundary in a content type; null: it is not a form. */
export function formBoundary(contentType: string | undefined): string | null {
  if (contentType === undefined || !/^multipart\/form-data\s*;/i.test(contentType)) return null
  const [, quoted, plain] =
    /;\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(contentType) ?? []
  return quoted ?? plain ?? null
}

/** A part ends at the next boundary. */
export function formParts(bytes: Uint8Array, boundary: string): readonly FormPart[] {
  const parts: FormPart[] = []
  const line = new TextEncoder().encode(`--${boundary}`)
  let start = indexOfLine(bytes, line, 0)
  while (start >= 0 && parts.length < PARTS_MAX) {
    const next = indexOfLine(bytes, line, start + line.length)
    if (next < 0) break
    const headStart = start + line.length
    const headEnd = endOfHead(bytes, headStart, Math.min(next, headStart + HEAD_BYTES_MAX))
    if (headEnd !== null) {
      const valueEnd = bytes[next - 2] === 13 ? next - 2 : next - 1
      const place = { start, end: next, valueStart: headEnd, valueEnd }
      parts.push({ ...headOfPart(asciiOf(bytes, headStart, headEnd)), ...place })
    }
    start = next
  }
  return parts
}

/** `head` has one character per byte. */
export function headOfPart(head: string): PartHead {
  const [, quoted, plain] = /;\s*name=(?:"([^"]*)"|([^\s;"]+))/i.exec(head) ?? []
  const [, file] = /;\s*filename="((?:[^"\\]|\\.)*)"/i.exec(head) ?? []
  return {
    name: quoted ?? plain ?? '',
    ...(file === undefined ? {} : { fileName: utf8Of(file) }),
  }
}

/** Browsers and other clients write names as UTF-8. */
function utf8Of(text: string): string {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at)
  return new TextDecoder().decode(bytes)
}

/** Null: the head does not end before `to`. */
export function endOfHead(bytes: Uint8Array, from: number, to: number): number | null {
  for (let at = bytes.indexOf(LF, from); at >= 0 && at < to; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2
    if (bytes[at + 1] === 13 && bytes[at + 2] === LF) return at + 3
  }
  return null
}

/**
 * A boundary is at the start of the body or of a line; `startsLine`: these bytes are at such a start. -1: not
 * found.
 */
export function indexOfLine(
  bytes: Uint8Array,
  line: Uint8Array,
  from: number,
  startsLine = true,
): number {
  const [first = 0] = line
  for (let at = bytes.indexOf(first, from); at >= 0; at = bytes.indexOf(first, at + 1)) {
    if (at > 0 ? bytes[at - 1] !== LF : !startsLine) continue
    if (line.every((byte, index) => bytes[at + index] === byte)) return at
  }
  return -1
}
