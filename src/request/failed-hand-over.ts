/**
 * The failure of an engine on a request that was to use the KV of a prefill leg.
 *
 * The transfer itself is the likely cause, which concerns the prefill server and the way to it as well; so the log
 * says so, and where there is no other decode engine the same one may be asked again with other KV.
 */
import { BatonError } from '../base/index.ts'

/**
 * The same error if it is no answer of the engine, or one that is not about the request. A refusal counts, because the
 * prefill engine has accepted the same request; if it comes again with other KV, it is the client's answer.
 */
export function duringHandOver(error: BatonError): BatonError {
  const { code, message, data, cause } = error
  const status = data['upstreamStatus']
  if (typeof status !== 'number') return error
  if (code === 'backend.invalid_argument') {
    return new BatonError(code, message, { data: { ...data, handOver: true }, cause })
  }
  if (status < 500) return error
  const text = `${message} on a request with the KV of a prefill server: its log has the reason`
  return new BatonError(code, text, { data: { ...data, handOver: true }, cause })
}

export function isOfHandOver({ data }: BatonError): boolean {
  return data['handOver'] === true
}
