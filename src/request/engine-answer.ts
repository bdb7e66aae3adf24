/**
 * The answer of an engine that failed, as facts of the error: another engine may be asked first, and if there is none,
 * the client gets this answer unchanged.
 */
import { BatonError } from '../base/index.ts'

export interface EngineAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** One character per byte. */
  readonly body: string
}

/** The limit of a text in an error; a longer answer is replaced by Baton's own. */
const BODY_MAX = 8000

export function withEngineAnswer(error: BatonError, answer: EngineAnswer): BatonError {
  const { status, headers, body } = answer
  if (body.length > BODY_MAX) return error
  const type = headers['content-type'] ?? 'text/plain'
  return withFacts(error, { answerStatus: status, answerType: type, answerBody: body })
}

/** Null: the client gets the error in Baton's words. */
export function engineAnswerOf({ data }: BatonError): EngineAnswer | null {
  const { answerStatus: status, answerType: type, answerBody: body } = data
  if (typeof status !== 'number' || typeof type !== 'string' || typeof body !== 'string')
    return null
  return { status, headers: { 'content-type': type }, body }
}

/** For a failure that the client has read already in the engine's own words. */
export function asShown(error: BatonError): BatonError {
  return withFacts(error, { isShown: true })
}

export function isShown({ data }: BatonError): boolean {
  return data['isShown'] === true
}

function withFacts(error: BatonError, facts: BatonError['data']): BatonError {
  const { code, message, data, cause } = error
  return new BatonError(code, message, { data: { ...data, ...facts }, cause })
}
