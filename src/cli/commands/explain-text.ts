/**
 * Formats the routing decisions of a request as text and columns for a terminal.
 */
import type { DecisionRecord, WeighedTerm } from '../../router/index.ts'

export interface Explained {
  readonly request_id: string
  readonly model: string
  readonly decisions: readonly DecisionRecord[]
}

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
    ...(outcome.kind === 'routed' ? ttftLine(outcome) : []),
    ...(disaggregation === undefined ? [] : [`  ${disaggregation}`]),
    `  mode ${mode}, ${ranksEligible} of ${ranksSeen} ranks were eligible`,
    ...(candidates.length === 0 ? [] : table(decision)),
    ...leftOut(excluded),
  ]
}

/** The predicted and the measured time to the first token. */
function ttftLine({
  predictedTtftMs,
  ttftMs,
}: Extract<DecisionRecord['outcome'], { kind: 'routed' }>): string[] {
  const predicted =
    predictedTtftMs === undefined ? null : `predicted after ${rounded(predictedTtftMs)} ms`
  const came = ttftMs === undefined ? null : `came after ${rounded(ttftMs)} ms`
  const said = [predicted, came].filter((part) => part !== null)
  return said.length === 0 ? [] : [`  first token ${said.join(', ')}`]
}

/** One column per cost term with its name and weight; the cheapest candidate comes first. */
function table({ terms, candidates }: DecisionRecord): string[] {
  const rows = [
    ['worker', 'rank', 'cost', ...terms.map(({ name }) => name)],
    ['', '', 'weight', ...terms.map(weightText)],
    ...candidates.map(({ workerId, dpRank, cost, terms: values }) => [
      workerId,
      String(dpRank),
      rounded(cost),
      ...terms.map(({ name }) => rounded(values[name] ?? 0)),
    ]),
  ]
  const widths = rows[0]?.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows.map((row) => `  ${row.map((cell, i) => cell.padStart(widths?.[i] ?? 0)).join('  ')}`)
}

function weightText({ role, weight }: WeighedTerm): string {
  if (role === 'factor') return 'factor'
  return role === 'credit' && weight > 0 ? `-${rounded(weight)}` : rounded(weight)
}

const rounded = (value: number): string => String(Number(value.toFixed(2)))

function leftOut(excluded: DecisionRecord['excluded']): string[] {
  return excluded.map(
    ({ workerId, dpRank, reason }) => `  excluded: worker ${workerId} rank ${dpRank}: ${reason}`,
  )
}
