/**
 * Where and when one choice ran: worker ids and times for `nvext` of the reply and for the metrics.
 */
import { roundedMs } from '../../base/index.ts'
import type { WorkerSlots } from '../../api/index.ts'
import type { PhaseEvent, RoutedEvent } from '../../request/index.ts'

export class ReplyTimeline {
  readonly #receivedMs: number
  readonly #receivedEpochMs: number
  readonly slots: WorkerSlots = {}
  #prefillStartMs: number | null = null
  #firstTokenMs: number | null = null
  #transferMs: number | null = null
  #queueDepth: number | null = null
  #overlap: { blocks: number; of: number } | null = null

  constructor(receivedMs: number, receivedEpochMs: number) {
    this.#receivedMs = receivedMs
    this.#receivedEpochMs = receivedEpochMs
  }

  routed(event: RoutedEvent): void {
    if (event.phase !== 'decode') {
      this.slots.prefillWorkerId = event.workerId
      if (event.dpRank !== undefined) this.slots.prefillDpRank = event.dpRank
      this.#prefillStartMs ??= event.atMs
      this.#queueDepth ??= event.queueDepth ?? null
      this.#overlap ??= { blocks: event.overlapBlocks, of: event.promptBlocks }
    }
    if (event.phase !== 'prefill') {
      this.slots.decodeWorkerId = event.workerId
      if (event.dpRank !== undefined) this.slots.decodeDpRank = event.dpRank
    }
  }

  /** The duration of the KV transfer as the decode worker measured it. */
  kvTransferred({ elapsedMs }: Extract<PhaseEvent, { kind: 'kvTransferred' }>): void {
    this.#transferMs = elapsedMs
  }

  firstToken(nowMs: number): void {
    this.#firstTokenMs ??= nowMs
  }

  get isRouted(): boolean {
    return this.slots.decodeWorkerId !== undefined || this.slots.prefillWorkerId !== undefined
  }

  timing(nowMs: number, completionTokens: number): Record<string, number> {
    const received = this.#receivedMs
    const timing: Record<string, number> = { request_received_ms: this.#receivedEpochMs }
    const start = this.#prefillStartMs
    const first = this.#firstTokenMs
    if (start !== null) timing['prefill_wait_time_ms'] = roundedMs(start - received)
    if (start !== null && first !== null) timing['prefill_time_ms'] = roundedMs(first - start)
    if (first !== null) {
      timing['ttft_ms'] = roundedMs(first - received)
      if (completionTokens > 1) {
        timing['avg_itl_ms'] = roundedMs((nowMs - first) / (completionTokens - 1))
      }
    }
    if (this.#transferMs !== null) {
      timing['kv_transfer_estimated_latency_ms'] = roundedMs(this.#transferMs)
    }
    if (this.#queueDepth !== null) timing['router_queue_depth'] = this.#queueDepth
    timing['total_time_ms'] = roundedMs(nowMs - received)
    if (this.#overlap !== null && this.#overlap.of > 0) {
      timing['kv_hit_rate'] = this.#overlap.blocks / this.#overlap.of
    }
    return timing
  }
}
