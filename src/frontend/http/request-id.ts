/**
 * Generates ids for requests and tool calls.
 */
import { holdsKey } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'

function hex(random: Random, digits: number): string {
  let out = ''
  while (out.length < digits) {
    const drawn = Math.floor(random.next() * 0x100000000)
    for (let shift = 24; shift >= 0; shift -= 8) out += BYTES[(drawn >>> shift) & 0xff] as string
  }
  return out.slice(0, digits)
}

const BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** A UUID of version 4. */
export function createRequestId(random: Random): string {
  const h = hex(random, 32)
  const variant = '89ab'[Math.floor(random.next() * 4)] ?? '8'
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-4${h.slice(13, 16)}-${variant}${h.slice(17, 20)}-${h.slice(20)}`
}

/** True when a client's id can be used for the request: short, and safe in logs, paths and headers. */
export function isRequestId(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/.test(text) && !holdsKey(text)
}

/** A client's own id for the reply header: any valid header value. Null: it is not returned. */
export function echoedRequestId(asked: string | undefined): string | null {
  return asked !== undefined && /^[\x21-\x7e][\x20-\x7e]{0,511}$/.test(asked) ? asked : null
}

export function createToolCallId(random: Random): string {
  return `call_${hex(random, 24)}`
}
