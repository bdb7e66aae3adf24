/**
 * HELLO, the first frame in each direction: `[magic u32][version u16][oldest version u16][nonce 16 bytes][body,
 * msgpack]`.
 *
 * The part before the body never changes, so that peers of any version can report why they disconnect.
 */
import { BatonError } from '../base/index.ts'
import type { FrameWriter } from './frame-writer.ts'
import { PayloadReader } from './payload-reader.ts'
import { decodeRecord, encodePlain } from './plain-value.ts'
import { protocolError } from './protocol-error.ts'
import { TAG } from './tag.ts'

export const WIRE_VERSION = 1
export const WIRE_VERSION_OLDEST = 1
/** Capability of a frontend: accepts a worker's card as an unsolicited message whenever it changes. */
export const CARD_NEWS = 'card-news'

export const NONCE_BYTES = 16
/** "BATN". */
const MAGIC = 0x4e544142
const HEAD_BYTES = 8 + NONCE_BYTES

export type WireRole = 'frontend' | 'worker' | 'kv-server' | 'kv-client' | 'boostr'

/** What each side announces about itself. */
export interface HelloBody {
  readonly role: WireRole
  /** Program version, for people. */
  readonly software: string
  /** Optional features, by name; unknown names are ignored. */
  readonly capabilities: readonly string[]
  /** Limits that the other side must observe, by name. */
  readonly limits: Readonly<Record<string, number>>
  /** The id of the worker, if it is one. */
  readonly workerId?: string
  /** The time on the clock of a worker, since 1970; workers before 0.2.0 do not send it. */
  readonly epochMs?: number
  /** This side closes the connection unless the other one proves that it knows the secret. */
  readonly authRequired: boolean
}

export interface Hello extends HelloBody {
  readonly version: number
  readonly versionOldest: number
  readonly nonce: Uint8Array
}

export function encodeHello(writer: FrameWriter, hello: Hello): void {
  const { version, versionOldest, nonce, ...body } = hello
  writer.begin(TAG.HELLO).u32(MAGIC).u16(version).u16(versionOldest).bytes(nonce)
  writer.bytes(encodePlain(body, 'HELLO')).end()
}

/** Throws `transport.protocol`, or `transport.version_mismatch` before anything after the head is parsed. */
export function decodeHello(bytes: Uint8Array, start: number, end: number): Hello {
  const reader = new PayloadReader(bytes, start, end)
  if (reader.u32() !== MAGIC) {
    throw protocolError('hello.bad_magic', 'the peer does not speak the Baton wire protocol')
  }
  const version = reader.u16()
  const versionOldest = reader.u16()
  const nonce = reader.copy(NONCE_BYTES)
  expectCommonVersion(version, versionOldest)
  const body = decodeRecord(bytes, start + HEAD_BYTES, end, 'HELLO')
  const { role, software, capabilities, limits, workerId, epochMs, authRequired } = body
  const isWhole =
    isRole(role) &&
    typeof software === 'string' &&
    isTextList(capabilities) &&
    isNumberRecord(limits) &&
    (workerId === undefined || typeof workerId === 'string')
  if (!isWhole) throw protocolError('message.malformed', 'HELLO is invalid: a field is missing')
  return {
    version,
    versionOldest,
    nonce,
    role,
    software,
    capabilities,
    limits,
    authRequired: authRequired === true,
    ...(workerId === undefined ? {} : { workerId }),
    ...(typeof epochMs === 'number' ? { epochMs } : {}),
  }
}

/** Throws unless both sides support a common version; the error says which side must be upgraded. */
function expectCommonVersion(version: number, versionOldest: number): void {
  const peerIsOlder = version < WIRE_VERSION_OLDEST
  const peerIsNewer = versionOldest > WIRE_VERSION
  if (!peerIsOlder && !peerIsNewer && versionOldest <= version) return
  throw new BatonError(
    'transport.version_mismatch',
    `the peer speaks wire versions ${versionOldest} to ${version}, this process ` +
      `${WIRE_VERSION_OLDEST} to ${WIRE_VERSION}: upgrade ${peerIsOlder ? 'the peer' : 'this process'}`,
    { data: { peerVersion: version, peerVersionOldest: versionOldest, version: WIRE_VERSION } },
  )
}

const ROLES: readonly unknown[] = ['frontend', 'worker', 'kv-server', 'kv-client', 'boostr']

function isRole(value: unknown): value is WireRole {
  return ROLES.includes(value)
}

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

function isNumberRecord(value: unknown): value is Readonly<Record<string, number>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((item) => typeof item === 'number')
}
