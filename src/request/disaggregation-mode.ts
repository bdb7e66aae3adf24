/** Which part of a request a worker serves: all of it (aggregated), the prefill, or the decode. */
import { BatonError } from '../base/index.ts'

export type DisaggregationMode = 'agg' | 'prefill' | 'decode'

/** The names used in JSON. The parser also accepts the short form `agg`. */
type ModeName = 'aggregated' | 'prefill' | 'decode'

/** Ignores case and surrounding space; `agg` and `aggregated` are the same. Throws `request.invalid_argument`. */
export function parseDisaggregationMode(text: string): DisaggregationMode {
  const name = text.trim().toLowerCase()
  switch (name) {
    case 'agg':
    case 'aggregated':
      return 'agg'
    case 'prefill':
    case 'decode':
      return name
    default:
      throw new BatonError(
        'request.invalid_argument',
        `unknown disaggregation mode '${name}', expected one of: agg, prefill, decode`,
        { data: { value: name, accepted: 'agg, prefill, decode' } },
      )
  }
}

export function modeName(mode: DisaggregationMode): ModeName {
  return mode === 'agg' ? 'aggregated' : mode
}
