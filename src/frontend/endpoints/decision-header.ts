/**
 * The header `x-baton-decision`: where each leg of a request was sent and why. It is returned to requests that
 * have the same header.
 *
 * One member per decision, in order, in the syntax of structured headers (RFC 8941):
 *
 * prefill; worker="18"; rank=0; reason="lowest cost"; overlap=12; blocks=16; cost=70;
 * terms="device=12 prefill=4 decode=6 …"; candidates=3; queued-ms=0
 *
 * A refused decision has `refused="<code>"` instead of a worker. `GET /debug/requests/{id}` lists every
 * candidate.
 */
import type { CandidateRecord, DecisionRecord } from '../../router/index.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import type { ModelRegistry } from '../models/model-registry.ts'

const NAME = 'x-baton-decision'
/** Only the last decisions: a request that migrates again and again must not fill the reply's head. */
const DECISIONS_MAX = 8
const NO: ReadonlySet<string> = new Set(['', '0', 'false', 'no'])

/** The header of a reply; empty when it was not requested or nothing was decided. */
export function decisionHeader(
  asked: HttpReply['headers'],
  registry: ModelRegistry,
  requestId: string,
): HttpReply['headers'] {
  if (NO.has(asked[NAME]?.trim().toLowerCase() ?? '')) return {}
  const found = registry.decisionsOf(requestId)
  if (found === null) return {}
  return { [NAME]: found.decisions.slice(-DECISIONS_MAX).map(asMember).join(', ') }
}

function asMember(record: DecisionRecord): string {
  const { phase, outcome, promptBlocks, ranksEligible, queuedMs } = record
  const queue = `queued-ms=${Math.round(queuedMs)}`
  if (outcome.kind === 'refused') return `${phase}; refused="${outcome.code}"; ${queue}`
  const { workerId, dpRank, reason, overlapBlocks } = outcome
  const chosen = record.candidates.find(
    (candidate) => candidate.workerId === workerId && candidate.dpRank === dpRank,
  )
  const cost = chosen === undefined ? '' : costText(record, chosen)
  return (
    `${phase}; worker="${workerId}"; rank=${dpRank}; reason="${reason}"; overlap=${overlapBlocks}; ` +
    `blocks=${promptBlocks}${cost}; candidates=${ranksEligible}; ${queue}`
  )
}

/** The cost of the chosen worker, and the value of every term with its name. */
function costText({ terms }: DecisionRecord, { cost, terms: values }: CandidateRecord): string {
  const shown = terms.map(({ name }) => `${name}=${rounded(values[name] ?? 0)}`)
  return `; cost=${rounded(cost)}; terms="${shown.join(' ')}"`
}

const rounded = (value: number): number => Number(value.toFixed(3))
