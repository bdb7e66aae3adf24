/**
 * Room `base`: what every room (folder of src) may use.
 *
 * Owns errors and their codes, assertions, clock and randomness as interfaces, deadlines, worker ids, guards for
 * JSON values and integers, the size of JSON, bytes joined and grown, memory freed at once, medians, rounded times, well-formed text, text that is safe on a
 * terminal, in a log or in HTML.
 * May use: nothing. For: every room.
 */
export { addressText } from './address-text.ts'
export { assert, unreachable } from './assert.ts'
export { BatonError, errorOf, isBatonError, messageOf, safeText } from './baton-error.ts'
export type { ErrorData, ErrorValue } from './baton-error.ts'
export type { CancelSignal } from './cancel-signal.ts'
export { sleep } from './clock.ts'
export type { Clock, Timer } from './clock.ts'
export { withDeadline } from './deadline.ts'
export { ERROR_CODES, isSendersFault } from './error-codes.ts'
export type { ErrorClass, ErrorCode } from './error-codes.ts'
export { escapeHtml } from './escape-html.ts'
export { endOfString, exactJson, hasExactIntegers, parseExactJson } from './json/exact-json.ts'
export { withExactIntegers, withPlainIntegers } from './json/exact-json.ts'
export { excessOfJson, JSON_DEPTH_MAX, sizeOfJson } from './json/json-size.ts'
export { objectInJson } from './json/json-in-text.ts'
export { freeMemory, freeOwned, ownMemory } from './free-memory.ts'
export { InFlightMap, InFlightSet } from './in-flight.ts'
export type { InFlight } from './in-flight.ts'
export { grownBytes } from './grown-bytes.ts'
export { isRecord } from './is-record.ts'
export { isU32 } from './is-u32.ts'
export { joinedBytes } from './joined-bytes.ts'
export { holdsKey, withoutKeys } from './key-text.ts'
export { loggedMessage } from './logged-message.ts'
export { medianOf } from './median-of.ts'
export { mixedBits } from './mixed-bits.ts'
export { printable, printableLines } from './printable.ts'
export { randomInt, seededRandom } from './random.ts'
export type { Random } from './random.ts'
export { roundedMs } from './rounded-ms.ts'
export { wellFormed } from './well-formed.ts'
export { parseWorkerId, workerIdOf } from './worker-id.ts'
export type { WorkerId } from './worker-id.ts'
export { nameOfToken, recordOf, textOf } from './json/json-value.ts'
export type { JsonRecord } from './json/json-value.ts'
