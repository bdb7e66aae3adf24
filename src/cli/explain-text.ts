/**
 * The decisions of a request in words and columns, for a reader at a terminal.
 */
import type { CandidateRecord, DecisionRecord } from '../router/index.ts'

export interface Explained {
  readonly request_id: string
  readonly model: string
  readonly decisions: readonly DecisionRecord[]
}

const COLUMNS: readonly (readonly [string, (candidate: CandidateRecord) => string | number])[] = [
  ['worker', ({ workerId }) => workerId],
  ['rank', ({ dpRank }) => dpRank],
  ['cost', ({ cost }) => cost],
  ['prefill', ({ prefillBlocks }) => prefillBlocks],
  ['credit', ({ credit }) => credit],
  ['device', ({ deviceBlocks }) => deviceBlocks],
  ['host', ({ hostBlocks }) => hostBlocks],
  ['disk', ({ diskBlocks }) => diskBlocks],
  ['shared', ({ sharedBlocks }) => sharedBlocks],
  ['decay', ({ decay }) => decay],
  ['decode', ({ decodeBlocks }) => decodeBlocks],
  ['requests', ({ activeRequests }) => activeRequests],
  ['taints', ({ taintFactor }) => taintFactor],
  ['scorers', ({ extra }) => extra],
]

export function explainText({ request_id: requestId, model, decisions }: Explained): string {
  const parts = decisions.map((decision) => decisionLines(decision).join('\n'))
  return [`request ${requestId}, model ${model}`, ...parts].join('\n\n')
}

function decisionLines(decision: DecisionRecord): string[] {
  const { phase, outcome, candidates, excluded, disaggregation, promptBlocks } = decision
  const { queuedMs, ranksSeen, ranksEligible, atEpochMs, mode } = decision
  const when = new Date(atEpochMs).toISOString().slice(11, 23)
  const waited = queuedMs > 0 ? `, ${Math.round(queuedMs)} ms in the queue` : ''
  const what =
    outcome.kind === 'routed'
      ? `worker ${outcome.workerId} rank ${outcome.dpRank} (${outcome.reason}), ` +
        `which holds ${outcome.overlapBlocks} of ${promptBlocks} blocks`
      : `refused, ${outcome.code}: ${outcome.message}`
  return [
    `${phase} at ${when}${waited}: ${what}`,
    ...(disaggregation === undefined ? [] : [`  ${disaggregation}`]),
    `  mode ${mode}, ${ranksEligible} of ${ranksSeen} ranks could take it`,
    ...(candidates.length === 0 ? [] : table(candidates)),
    ...leftOut(excluded),
  ]
}

/** Costs and terms are in KV blocks; the cheapest candidate comes first. */
function table(candidates: readonly CandidateRecord[]): string[] {
  const rows = [
    COLUMNS.map(([name]) => name),
    ...candidates.map((candidate) =>
      COLUMNS.map(([, valueOf]) => {
        const value = valueOf(candidate)
        return typeof value === 'number' ? String(Number(value.toFixed(2))) : value
      }),
    ),
  ]
  const widths = COLUMNS.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows.map((row) => `  ${row.map((cell, i) => cell.padStart(widths[i] ?? 0)).join('  ')}`)
}

function leftOut(excluded: DecisionRecord['excluded']): string[] {
  return excluded.map(
    ({ workerId, dpRank, reason }) => `  left out: worker ${workerId} rank ${dpRank}: ${reason}`,
  )
}
