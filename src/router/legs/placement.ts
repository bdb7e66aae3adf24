/** A booked place on a worker, not used yet: it is dispatched or released, exactly once. */
import type { BatonError } from '../../base/index.ts'
import type { GenerateRequest, ReplySink } from '../../request/index.ts'
import { Leg } from './leg.ts'
import type { LegParts } from './leg.ts'
import type { Selection } from '../decide/selection.ts'

interface PlacementParts extends Pick<
  LegParts,
  'router' | 'plane' | 'clock' | 'booking' | 'onEnd'
> {
  readonly selection: Selection
  readonly queuedMs: number
  readonly queueDepth: number
  readonly decisionMs: number
}

/** Exactly one of the two is called, at once or later, unless the wait is cancelled first. */
export interface PlacementWaiter {
  onPlaced(placement: Placement): void
  onRefused(error: BatonError): void
}

export class Placement {
  readonly #parts: PlacementParts
  #used = false

  constructor(parts: PlacementParts) {
    this.#parts = parts
  }

  get selection(): Selection {
    return this.#parts.selection
  }

  /**
   * For a prompt computed elsewhere: calls `onArrival` with the time from dispatch to the first token minus one
   * decode step, and the standard deviation of that.
   */
  watchArrival(onArrival: (elapsedMs: number, spreadMs: number) => void): void {
    this.#parts.booking.onArrival = onArrival
  }

  /** The decode leg that follows this prefill asks for its place; before that the prefill keeps one free. */
  followed(): void {
    this.#parts.router.followed(this.#parts.booking)
  }

  /** Sends the request with the chosen rank. `onFailed` is called before the sink is notified of an error. */
  dispatch(request: GenerateRequest, sink: ReplySink, onFailed?: () => void): Leg {
    this.#used = true
    const { router, plane, booking, selection, queuedMs, queueDepth, decisionMs, clock } =
      this.#parts
    const { phase, workerId, dpRank, overlapBlocks, promptBlocks } = selection
    const { card, promptTokens, isEstimated } = selection
    const atMs = clock.nowMs()
    const leg = new Leg(
      {
        router,
        plane,
        clock,
        booking,
        workerId,
        phase,
        card,
        promptTokens,
        overlapBlocks,
        isEstimated,
        onEnd: endOf(this.#parts.onEnd, onFailed),
      },
      sink,
    )
    const { bypassesPrefill } = request.routing
    sink.onPhase?.({
      kind: 'routed',
      phase,
      workerId,
      dpRank,
      overlapBlocks,
      promptBlocks,
      queuedMs,
      queueDepth,
      decisionMs,
      atMs,
      ...(bypassesPrefill === true ? { bypassesPrefill } : {}),
    })
    const ranks = card.engine.dataParallelSize ?? 1
    leg.start(ranks > 1 ? ranked(request, dpRank) : request)
    return leg
  }

  /** Frees the booking; no effect after dispatch. */
  release(): void {
    if (this.#used) return
    this.#used = true
    this.#parts.router.free(this.#parts.booking)
    this.#parts.onEnd?.(null)
  }
}

function ranked(request: GenerateRequest, dpRank: number): GenerateRequest {
  return { ...request, routing: Object.assign({}, request.routing, { dpRank }) }
}

/** A leg lives as long as its stream, so its callback must not keep the placement or the selection alive. */
function endOf(onEnd: LegParts['onEnd'], onFailed: (() => void) | undefined): LegParts['onEnd'] {
  if (onFailed === undefined) return onEnd
  return (error) => {
    onEnd?.(error)
    if (error !== null) onFailed()
  }
}
