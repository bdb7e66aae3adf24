/**
 * The initial pace for a router from the measurement of an engine: straight lines instead of the fitted curves,
 * including the request's time outside the engine.
 */
import type { EnginePace } from '../../request/index.ts'
import type { RequestOverhead } from '../fleet/fleet-config.ts'
import type { FittedTiming } from './fit-timing.ts'

export function enginePaceOf(
  { timing, prefill }: Pick<FittedTiming, 'timing' | 'prefill'>,
  overhead: RequestOverhead,
): EnginePace {
  const [startMs = 0, tokenMs = 0, squareMs = 0] = timing.prefill
  const longest = Math.max(0, ...prefill.map(({ tokens }) => tokens))
  const [stepMs, stepRequestMs] = stepLine(timing)
  return {
    promptMs: startMs + overhead.requestMs,
    // The quadratic term is replaced by the line that is exact at the longest measured prompt.
    promptTokenMs: tokenMs + squareMs * longest + overhead.msPerToken,
    stepMs,
    stepRequestMs,
    stepContextTokenMs: timing.decode[2],
  }
}

/** The line through the smallest and the largest measured batch. */
function stepLine({ decode, decodeSteps }: FittedTiming['timing']): readonly [number, number] {
  const { x = [], y = [] } = decodeSteps ?? {}
  const [from, to] = [x[0], x.at(-1)]
  const [first, last] = [y[0], y.at(-1)]
  if (from === undefined || to === undefined || first === undefined || last === undefined)
    return [decode[0], decode[1]]
  if (from === to || last <= first) return [Math.max(first, last), 0]
  const perRequest = (last - first) / (to - from)
  const stepMs = first - perRequest * from
  // If a step of one request is very fast compared with one of many, all of the time is per request.
  return stepMs >= 0 ? [stepMs, perRequest] : [0, last / to]
}
