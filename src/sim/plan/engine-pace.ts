/**
 * What a router is to begin with, of an engine that was measured: straight lines instead of the fitted curves, with what a
 * request costs beside the engine.
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
    // Of n² the line that is right at the longest prompt that was measured.
    promptTokenMs: tokenMs + squareMs * longest + overhead.msPerToken,
    stepMs,
    stepRequestMs,
    stepContextTokenMs: timing.decode[2],
  }
}

/** Through the first and the last of the measured numbers of requests. */
function stepLine({ decode, decodeSteps }: FittedTiming['timing']): readonly [number, number] {
  const { x = [], y = [] } = decodeSteps ?? {}
  const [from, to] = [x[0], x.at(-1)]
  const [first, last] = [y[0], y.at(-1)]
  if (from === undefined || to === undefined || first === undefined || last === undefined)
    return [decode[0], decode[1]]
  if (from === to || last <= first) return [Math.max(first, last), 0]
  const perRequest = (last - first) / (to - from)
  const stepMs = first - perRequest * from
  // A step of one request that is that quick next to one of many: all of it is per request.
  return stepMs >= 0 ? [stepMs, perRequest] : [0, last / to]
}
