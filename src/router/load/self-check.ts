/**
 * Checks whether configured features are in effect, in words: KV events arrive, disaggregation is used, and if not,
 * why.
 */
import type { WorkerId } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { RankRow } from '../ranks/rank-table.ts'
import type { DisaggregationStatus, PoolStatus, RankStatus } from '../ranks/router-status.ts'
import type { RouterStatus, Unpaired } from '../ranks/router-status.ts'
import { hasNoPair } from '../ranks/router-status.ts'

export function selfCheck(facts: Omit<RouterStatus, 'warnings' | 'selfCheck'>): RouterStatus {
  const warnings: string[] = []
  const lines: string[] = []
  checkEvents('prefill', facts.prefill, lines, warnings)
  checkEvents('decode', facts.decode, lines, warnings)
  checkForecasts('prefill', facts.prefill, warnings)
  checkForecasts('decode', facts.decode, warnings)
  checkReports('prefill', facts.prefill, warnings)
  checkReports('decode', facts.decode, warnings)
  checkHandOvers(facts.decode, lines, warnings)
  checkDisaggregation(facts.disaggregation, lines, warnings)
  return { ...facts, warnings, selfCheck: lines }
}

/**
 * A prompt may be cached completely or still be running; after this many prompts without events, events do not
 * arrive.
 */
const PROMPTS_BEFORE_SILENCE = 8

/** True if no events come from the rank: it announces none, or sends none although it had enough prompts. */
export function isSilent({ card, kvEventsSeen, promptsPlaced }: RankRow): boolean {
  if (kvEventsSeen > 0) return false
  return !card.publishesKvEvents || promptsPlaced >= PROMPTS_BEFORE_SILENCE
}

/** Workers that announce KV events, that have sent some, and that sent none although they should have by now. */
export function eventFacts(
  ranks: readonly RankStatus[],
  cardOf: (workerId: WorkerId) => WorkerCard | null,
): Pick<PoolStatus, 'kvEventWorkers' | 'kvEventWorkersExpected' | 'kvEventWorkersSilent'> {
  const heard = new Map<WorkerId, number>()
  const placed = new Map<WorkerId, number>()
  for (const { workerId, kvEventsSeen, promptsPlaced } of ranks) {
    heard.set(workerId, (heard.get(workerId) ?? 0) + kvEventsSeen)
    placed.set(workerId, (placed.get(workerId) ?? 0) + promptsPlaced)
  }
  const expected = [...heard.keys()].filter((id) => cardOf(id)?.publishesKvEvents === true)
  const isHeard = (id: WorkerId): boolean => (heard.get(id) ?? 0) > 0
  const isDue = (id: WorkerId): boolean => (placed.get(id) ?? 0) >= PROMPTS_BEFORE_SILENCE
  return {
    kvEventWorkers: [...heard.keys()].filter(isHeard).length,
    kvEventWorkersExpected: expected.length,
    kvEventWorkersSilent: expected.filter((id) => !isHeard(id) && isDue(id)).length,
  }
}

function checkEvents(name: string, pool: PoolStatus, lines: string[], warnings: string[]): void {
  if (pool.mode !== 'kv' || pool.workers === 0) return
  if (!pool.knowsBlocks) {
    lines.push(`${name}: routing without KV, the workers do not report their block size`)
    return
  }
  const { kvEventWorkers: seen, kvEventWorkersExpected: expected, kvEventWorkersSilent } = pool
  const reason = whyNoEvents(pool)
  lines.push(
    `${name}: KV events from ${seen} of ${expected} workers${reason === null ? '' : `; ${reason}`}`,
  )
  if (!pool.usesKvEvents) return
  if (kvEventWorkersSilent > 0) {
    warnings.push(
      `KV routing of the ${name} pool receives no KV events from ${kvEventWorkersSilent} of ${expected} workers that had prompts`,
    )
  }
  if (pool.kvEventErrors > 0) {
    warnings.push(
      `${name}: ${pool.kvEventErrors} KV events were rejected; blocks may be missing in the index; ${pool.kvSnapshotsAsked} snapshots were requested`,
    )
  }
  if (pool.indexGivenUp > 0) {
    const size = Math.round(pool.indexBytesMax / 1024 ** 2)
    warnings.push(
      `${name}: the KV index has reached its limit of ${size} MiB (--router-index-bytes); ${pool.indexGivenUp} blocks were evicted, the oldest first`,
    )
  }
}

/** What routing is based on where no events arrive. */
function whyNoEvents(pool: PoolStatus): string | null {
  const believed = 'workers are assumed to cache what they were sent'
  if (!pool.usesKvEvents) return `events are off, ${believed}`
  const silent = pool.workers - pool.kvEventWorkersExpected
  if (silent === 0) return pool.kvEventWorkers === 0 ? 'none has come yet' : null
  return `${silent} send none, these ${believed}`
}

/** Fewer replies are not significant. */
const FORECASTS_BEFORE_WARNING = 16
const SHARE_OFF_MAX = 0.25

function checkForecasts(name: string, pool: PoolStatus, warnings: string[]): void {
  const { answers } = pool
  if (pool.predictionsOff) {
    const error = Math.round(100 * (pool.ttftError ?? 0))
    warnings.push(
      `${name}: predicted first tokens are off by ${error} %; requests are routed by cached and active blocks until the error falls`,
    )
  }
  const { recentForecasts: recent, recentForecastsOff: off } = answers
  if (recent < FORECASTS_BEFORE_WARNING || off <= recent * SHARE_OFF_MAX) return
  warnings.push(
    `${name}: in ${off} of the last ${recent} replies the engine had cached another part of the prompt than its KV events said; events are lost, or the engine hashes blocks differently`,
  )
}

/** More are counted, not named. */
const WORKERS_NAMED_MAX = 3

/** A worker that says that it is full although nothing runs there would get no requests, and look healthy. */
function checkReports(name: string, pool: PoolStatus, warnings: string[]): void {
  const ignored = pool.ranks.filter(({ ignoredReport }) => ignoredReport !== null)
  if (ignored.length === 0) return
  const named = ignored.slice(0, WORKERS_NAMED_MAX).map(({ workerId, dpRank, ignoredReport }) => {
    const { requests = 0, queued = 0, blocks = 0 } = ignoredReport ?? {}
    return `worker ${workerId} rank ${dpRank} (${requests} requests, ${queued} of them queued, ${blocks} KV blocks in use)`
  })
  const more = ignored.length - named.length
  warnings.push(
    `${name}: ${named.join(', ')}${more === 0 ? '' : ` and ${more} more`} reported to be full and nothing since, but no request is known to be there: the report is ignored; an engine must report its load again when its requests have ended`,
  )
}

/** A hand-over without KV still yields a correct reply, only slower; this check is the only place where it shows. */
function checkHandOvers({ answers }: PoolStatus, lines: string[], warnings: string[]): void {
  const { kvMoved, kvNotMoved, recentTransfers, recentRecomputed } = answers
  if (recentRecomputed > recentTransfers * SHARE_OFF_MAX) {
    warnings.push(
      `${recentRecomputed} of the last ${recentTransfers} KV transfers failed: decode workers computed those prompts again; check that they reach the KV port of the prefill workers, their logs name the reason`,
    )
  }
  const all = kvMoved + kvNotMoved
  if (all === 0) return
  lines.push(`KV was handed over in ${kvMoved} of ${all} decode legs`)
  if (kvNotMoved > 0) {
    warnings.push(
      `KV was not transferred in ${kvNotMoved} of ${all} decode legs: the decode engine computed the prompt again`,
    )
  }
}

function checkDisaggregation(
  status: DisaggregationStatus,
  lines: string[],
  warnings: string[],
): void {
  if (status.state === 'disabled') return
  const { requests, disaggregated } = status
  const percent = requests === 0 ? 0 : Math.round((100 * disaggregated) / requests)
  const reasons = Object.entries(status.aggregatedBy)
    .sort((a, b) => b[1] - a[1])
    .map(([reason, count]) => `${reason} (${count})`)
  const why = reasons.length === 0 ? '' : `; aggregated: ${reasons.join(', ')}`
  lines.push(`disaggregation (${status.state}) taken in ${percent} % of ${requests} requests${why}`)
  if (status.state === 'unavailable') warnings.push('all prefill workers have left')
  warnings.push(...pairWarnings(status.unpaired))
  if (status.state === 'active' && requests > 0 && disaggregated === 0) {
    warnings.push(`disaggregation is on but never taken${why}`)
  }
}

/** A worker whose KV may not be transferred to or from any other looks healthy and gets no requests. */
function pairWarnings(unpaired: Unpaired | null): string[] {
  if (unpaired === null) return []
  const { prefill, prefillAll, decode, decodeAll } = unpaired
  if (hasNoPair(unpaired)) {
    return [
      'no prefill worker has a decode worker in its domain (topology, required): requests with two legs are refused; see --topology of the workers',
    ]
  }
  const warnings: string[] = []
  if (prefill > 0) {
    warnings.push(
      `${prefill} of ${prefillAll} prefill workers get no requests: no decode worker is in their domain (topology, required)`,
    )
  }
  if (decode > 0) {
    warnings.push(
      `${decode} of ${decodeAll} decode workers get no request with two legs: no prefill worker is in their domain (topology, required)`,
    )
  }
  return warnings
}
