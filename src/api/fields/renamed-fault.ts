/** Errors of a request that was translated to a chat request, in the terms of the API that the client uses. */
import { BatonError } from '../../base/index.ts'
import type { GenerationOptions } from './generation-fields.ts'

/** Runs `parse`; `nameOf` translates the field that an error names. */
export function withFieldNames<T>(nameOf: (param: string) => string, parse: () => T): T {
  try {
    return parse()
  } catch (thrown) {
    const param = thrown instanceof BatonError ? thrown.data['param'] : undefined
    if (!(thrown instanceof BatonError) || typeof param !== 'string') throw thrown
    const own = nameOf(param)
    if (own === param) throw thrown
    const text = thrown.message.replace(`\`${param}\``, `\`${own}\``)
    throw new BatonError(thrown.code, text, { data: { ...thrown.data, param: own }, cause: thrown })
  }
}

/** Names the field of a response format as the client's API does, for errors and headers. */
export function withFormatField<Call extends GenerationOptions>(call: Call, field: string): Call {
  const { guided } = call.sampling
  if (guided?.field !== 'response_format') return call
  return { ...call, sampling: { ...call.sampling, guided: { ...guided, field } } }
}
