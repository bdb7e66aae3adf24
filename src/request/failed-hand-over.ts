/**
 * The failure of an engine on a request that was to use the KV of a prefill leg.
 *
 * The transfer itself is the likely cause, which concerns the prefill server and the way to it as well; so the log
 * says so, and where there is no other decode engine the same one may be asked again with other KV.
 */
import { BatonError } from '../base/index.ts'

/** The same error if it is no answer of the engine, or one that refuses the request. */
export function duringHandOver(error: BatonError): BatonError {
  const { code, message, data, cause } = error
  const status = data['upstreamStatus']
  if (typeof status !== 'number' || status < 500) return error
  const text = `${message} on a request with the KV of a prefill server: its log has the reason`
  return new BatonError(code, text, { data: { ...data, handOver: true }, cause })
}

export function isOfHandOver({ data }: BatonError): boolean {
  return data['handOver'] === true
}
