/**
 * The attributes of spans: OpenTelemetry's GenAI and HTTP names where they exist, `baton.` names for the rest.
 */
import type { Endpoint, RequestEnd, RequestFacts } from '../../frontend/index.ts'
import type { DecisionRecord } from '../../router/index.ts'

export type Attributes = Readonly<Record<string, string | number | boolean>>

/** Best first; a span should not have hundreds of candidates. */
const CANDIDATES_MAX = 8

const OPERATIONS: Partial<Record<Endpoint, string>> = {
  chat_completions: 'chat',
  anthropic_messages: 'chat',
  responses: 'chat',
  completions: 'text_completion',
  embeddings: 'embeddings',
}

/** The prefix of the request's id in the id of the answer. */
const ID_PREFIXES: Partial<Record<Endpoint, string>> = {
  chat_completions: 'chatcmpl-',
  anthropic_messages: 'msg_',
  responses: 'resp_',
  completions: 'cmpl-',
}

/** The value of `gen_ai.operation.name`; an endpoint without a standard name keeps its own. */
export function operationOf(endpoint: Endpoint): string {
  return OPERATIONS[endpoint] ?? endpoint
}

/** Attributes of the span of the whole call. */
export function callAttributes(facts: RequestFacts, end: RequestEnd): Attributes {
  return defined({
    'http.request.method': 'POST',
    'http.response.status_code': end.status,
    'gen_ai.operation.name': operationOf(facts.endpoint),
    'gen_ai.provider.name': 'baton',
    'gen_ai.request.model': facts.model === '' ? undefined : facts.model,
    'gen_ai.response.model': end.outcome === 'success' ? facts.model : undefined,
    'gen_ai.response.id': responseIdOf(facts, end),
    'gen_ai.conversation.id': end.sessionId,
    'gen_ai.usage.input_tokens': end.promptTokens,
    'gen_ai.usage.output_tokens': end.completionTokens,
    'gen_ai.usage.cache_read.input_tokens': end.cachedTokens,
    'error.type': end.errorCode,
    'baton.request.id': facts.requestId,
    'baton.request.endpoint': facts.endpoint,
    'baton.request.streamed': facts.streamed,
    'baton.request.outcome': end.outcome,
    'baton.request.stage': end.stage,
    'baton.tenant.id': end.tenantId,
    'baton.ttft_ms': end.ttftMs,
    'baton.itl_ms': end.itlMs,
  })
}

/** As the client read it; undefined: there was no answer, or it has no id. */
function responseIdOf({ endpoint, requestId }: RequestFacts, end: RequestEnd): string | undefined {
  const prefix = ID_PREFIXES[endpoint]
  return end.outcome === 'success' && prefix !== undefined ? `${prefix}${requestId}` : undefined
}

/** Why the router chose the worker; empty when the decision is not kept any more. */
export function decisionAttributes(record: DecisionRecord | undefined): Attributes {
  if (record === undefined || record.outcome.kind !== 'routed') return {}
  const { workerId, dpRank, reason, cachedTokens } = record.outcome
  const chosen = record.candidates.find(
    (candidate) => candidate.workerId === workerId && candidate.dpRank === dpRank,
  )
  const terms = Object.entries(chosen?.terms ?? {}).map(
    ([name, value]) => [`baton.route.term.${name}`, value] as const,
  )
  const candidates = record.candidates.slice(0, CANDIDATES_MAX).map((candidate) => ({
    worker: String(candidate.workerId),
    rank: candidate.dpRank,
    cost: candidate.cost,
  }))
  return defined({
    'baton.route.mode': record.mode,
    'baton.route.reason': reason,
    'baton.route.cost': chosen?.cost,
    'baton.route.cached_tokens': cachedTokens,
    'baton.route.ranks_seen': record.ranksSeen,
    'baton.route.ranks_eligible': record.ranksEligible,
    'baton.route.disaggregation': record.disaggregation,
    'baton.route.candidates': candidates.length === 0 ? undefined : JSON.stringify(candidates),
    ...Object.fromEntries(terms),
  })
}

function defined(
  values: Readonly<Record<string, string | number | boolean | undefined>>,
): Attributes {
  return Object.fromEntries(
    Object.entries(values).filter(
      (entry): entry is [string, string | number | boolean] => entry[1] !== undefined,
    ),
  )
}
