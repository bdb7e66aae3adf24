/**
 * Headers that take precedence over the body: routing targets, ranks, priorities, goals, tenant and session. An
 * invalid header is ignored; without headers `nvext` stays as in the body. Only an invalid goal is refused, because
 * the client relies on it.
 */
import { parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { GOAL_MAX_MS, isGoalMs } from '../../request/index.ts'
import { invalid } from './generation-fields.ts'
import type { NvExt } from './nvext.ts'
import { given } from './plain-fields.ts'

export type Headers = Readonly<Record<string, string>>

const RANK_UNSET = 0xffffffff
const SESSION_ID_MAX = 256

/** Identifies a session across several requests. */
export interface SessionIdentity {
  readonly sessionId: string
  readonly parentSessionId?: string
  /** The client announces that no further request follows. */
  readonly isFinal?: boolean
}

/** The first header that is present; prefixed names come first. */
function first(headers: Headers, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = headers[name]?.trim()
    if (value !== undefined && value !== '') return value
  }
  return undefined
}

function workerIdIn(headers: Headers, names: readonly string[]): WorkerId | undefined {
  const text = first(headers, names)
  return text === undefined ? undefined : (parseWorkerId(text) ?? undefined)
}

function integerIn(
  headers: Headers,
  names: readonly string[],
  min: number,
  max: number,
): number | undefined {
  const text = first(headers, names)
  if (text === undefined || !/^[+-]?[0-9]{1,16}$/.test(text)) return undefined
  const value = Number(text)
  return value < min || value > max ? undefined : value
}

/** Milliseconds, possibly with a fraction. Throws `request.invalid_argument`. */
function goalIn(headers: Headers, name: string): number | undefined {
  const text = first(headers, [name])
  if (text === undefined) return undefined
  const value = /^[0-9]{1,16}(\.[0-9]{1,16})?$/.test(text) ? Number(text) : null
  if (isGoalMs(value)) return value
  throw invalid(name, `must be milliseconds above 0 and at most ${GOAL_MAX_MS}`)
}

/** Throws for an invalid goal. */
export function applyRoutingHeaders(nvext: NvExt, headers: Headers): NvExt {
  const isUnset = nvext.dp_rank === RANK_UNSET || nvext.prefill_dp_rank === RANK_UNSET
  // All names share a prefix that most requests lack, so this check is fast.
  if (!isUnset && !hasOwnHeader(headers)) return nvext
  const worker = workerIdIn(headers, ['x-dynamo-worker-instance-id', 'x-worker-instance-id'])
  const prefill = workerIdIn(headers, ['x-dynamo-prefill-instance-id', 'x-prefill-instance-id'])
  const rank = integerIn(
    headers,
    ['x-dynamo-dp-rank', 'x-dp-rank', 'x-data-parallel-rank'],
    0,
    RANK_UNSET,
  )
  const prefillRank = integerIn(
    headers,
    ['x-dynamo-prefill-dp-rank', 'x-prefill-dp-rank'],
    0,
    RANK_UNSET,
  )
  const priority = integerIn(headers, ['x-dynamo-request-priority'], -2147483648, 2147483647)
  const strict = integerIn(headers, ['x-dynamo-request-strict-priority'], 0, RANK_UNSET)
  const tenant = first(headers, ['x-tenant-id'])
  const ttft = goalIn(headers, 'x-baton-ttft-target-ms')
  const itl = goalIn(headers, 'x-baton-itl-target-ms')

  const merged: NvExt = {
    ...nvext,
    ...given({
      backend_instance_id: worker,
      decode_worker_id: worker,
      prefill_worker_id: prefill,
      dp_rank: rank,
      prefill_dp_rank: prefillRank,
      cache_salt: tenant,
    }),
  }
  if (priority !== undefined || strict !== undefined) {
    merged.agent_hints = {
      ...nvext.agent_hints,
      ...given({ priority, strict_priority: strict }),
    }
  }
  if (ttft !== undefined || itl !== undefined) {
    merged.router = { ...nvext.router, ...given({ ttft_target: ttft, itl_target: itl }) }
  }
  if (merged.dp_rank === RANK_UNSET) delete merged.dp_rank
  if (merged.prefill_dp_rank === RANK_UNSET) delete merged.prefill_dp_rank
  return merged
}

function hasOwnHeader(headers: Headers): boolean {
  for (const name in headers) if (name.startsWith('x-')) return true
  return false
}

function named(headers: Headers, names: readonly string[]): string | undefined {
  const name = first(headers, names)
  return name === undefined || name.length > SESSION_ID_MAX ? undefined : name
}

/**
 * Baton's own headers first, then those of known agents: Claude Code, Codex, OpenCode. A session id that is too long
 * is ignored, because many sessions are kept in memory.
 */
export function sessionOf(headers: Headers): SessionIdentity | undefined {
  const own = named(headers, ['x-dynamo-session-id'])
  if (own !== undefined) {
    const final = first(headers, ['x-dynamo-session-final'])?.toLowerCase()
    return {
      sessionId: own,
      ...given({ parentSessionId: named(headers, ['x-dynamo-parent-session-id']) }),
      ...(final === 'true' || final === '1' || final === 'yes' ? { isFinal: true } : {}),
    }
  }
  const claude = named(headers, ['x-claude-code-session-id'])
  if (claude !== undefined) {
    const agent = named(headers, ['x-claude-code-agent-id'])
    if (agent === undefined) return { sessionId: claude }
    const parent = named(headers, ['x-claude-code-parent-agent-id']) ?? claude
    return { sessionId: agent, parentSessionId: parent }
  }
  const codex = named(headers, ['session-id'])
  if (codex !== undefined) return { sessionId: codex }
  const open = named(headers, ['x-session-id'])
  if (open === undefined) return undefined
  return { sessionId: open, ...given({ parentSessionId: named(headers, ['x-parent-session-id']) }) }
}

/** Version, trace id, parent id and flags; a later version may add fields, which are dropped. */
const TRACEPARENT = /^([0-9a-f]{2})(-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(-.*)?$/

/** The W3C trace context, if it is well-formed, as version 00. */
export function traceparentOf(headers: Headers): string | undefined {
  const text = headers['traceparent']?.trim().toLowerCase() ?? ''
  const [, version, context, more] = TRACEPARENT.exec(text) ?? []
  if (context === undefined || version === 'ff') return undefined
  if (version === '00' && more !== undefined) return undefined
  const isZero = /^-0{32}-/.test(context) || /^-.{32}-0{16}-/.test(context)
  return isZero ? undefined : `00${context}`
}
