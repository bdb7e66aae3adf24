/**
 * Questions to a worker besides requests, one per connection at a time: its card, an admin command, a piece of its
 * model's tokenizer files.
 *
 *   COMMAND_ASK, TEXT_ASK   msgpack of a record
 *   COMMAND, TEXT           msgpack of the answer, or of `{ error }` (an error as in ERROR)
 */
import { BatonError, isRecord } from '../base/index.ts'
import type { ErrorValue } from '../base/index.ts'
import type { FrameWriter } from './frame-writer.ts'
import { decodePlain, encodePlain } from './plain-value.ts'

/** The answer, or the error why there is none. */
type Answer = { readonly answer: unknown } | { readonly error: ErrorValue }

export function encodeAsk(writer: FrameWriter, tag: number, question: unknown): void {
  const bytes = encodePlain(question, 'a question')
  writer.begin(tag).bytes(bytes).end()
}

export function encodeAnswer(writer: FrameWriter, tag: number, answer: Answer): void {
  const bytes = packedAnswer(answer)
  writer.begin(tag).bytes(bytes).end()
}

/** An answer may come from an engine; one that cannot be sent is answered with the reason. */
function packedAnswer(answer: Answer): Uint8Array {
  try {
    return encodePlain(answer, 'an answer')
  } catch (thrown) {
    return encodePlain({ error: BatonError.from(thrown).toValue() }, 'an error')
  }
}

/** Throws the peer's error, or `transport.protocol` if the message is not an answer. */
export function decodeAnswer(bytes: Uint8Array, start: number, end: number): unknown {
  const value = decodePlain(bytes, start, end, 'an answer')
  if (typeof value === 'object' && value !== null) {
    if ('error' in value) throw BatonError.fromValue(errorValueOf(value.error))
    if ('answer' in value) return value.answer
  }
  throw new BatonError(
    'transport.protocol',
    'the message is invalid: expected an answer or an error',
  )
}

function errorValueOf(value: unknown): { code: string; message: string } {
  if (!isRecord(value)) return { code: 'backend.unknown', message: 'the worker reports an error' }
  return { code: String(value['code']), message: String(value['message']) }
}
