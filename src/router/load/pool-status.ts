/** The status of a pool for metrics, `/health` and the console. */
import type { RouterConfig } from '../configuration/router-config.ts'
import type { AnswerCheck } from '../ranks/answer-check.ts'
import type { EventIntake } from './event-intake.ts'
import type { OverlapIndex } from './overlap-index.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import type { PoolStatus } from '../ranks/router-status.ts'
import { eventFacts } from './self-check.ts'

interface StatusParts extends Pick<
  PoolStatus,
  'blockSize' | 'knowsBlocks' | 'prefillsUnderWay' | 'decisions' | 'refusals' | 'busy'
> {
  readonly config: RouterConfig
  readonly table: RankTable
  readonly index: OverlapIndex
  readonly events: EventIntake
  readonly rates: RankRates
  readonly answers: AnswerCheck
  readonly queue: { readonly requests: number; readonly promptTokens: number }
}

export function poolStatus(parts: StatusParts): PoolStatus {
  const { config, table, events, rates, queue } = parts
  const { blockSize, knowsBlocks, prefillsUnderWay, decisions, refusals, busy } = parts
  const ranks = table.live.map((slot) => table.statusOf(slot))
  const index = parts.index.eventStats
  return {
    mode: config.mode,
    blockSize,
    knowsBlocks,
    workers: table.workerCount,
    ranks,
    queuedRequests: queue.requests,
    queuedPromptTokens: queue.promptTokens,
    activeRequests: ranks.reduce((sum, rank) => sum + rank.activeRequests, 0),
    prefillsUnderWay,
    decisions,
    refusals,
    usesKvEvents: config.useKvEvents,
    ...eventFacts(ranks, (workerId) => table.cardOf(workerId)),
    kvEventGaps: events.gaps,
    kvEventErrors: events.refused,
    kvSnapshotsAsked: events.snapshotsAsked,
    indexBlocks: index?.blocks ?? 0,
    indexBytes: index?.bytes ?? 0,
    indexBytesMax: config.indexBytes,
    indexGivenUp: index?.givenUp ?? 0,
    answers: parts.answers.status(),
    ttftError: rates.ttftError,
    predictionsOff: config.cost === 'time' && rates.isLost,
    predictedTtftMs: rates.usualTtftMs(
      table.live,
      (slot) => table.activePrefillTokens[slot] ?? 0,
      queue.promptTokens,
    ),
    busy,
  }
}
