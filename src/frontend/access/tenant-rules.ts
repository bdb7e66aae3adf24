/**
 * Applies a caller's key to a request: allowed models, cache isolation between tenants, priority.
 */
import { BatonError } from '../../base/index.ts'
import { goalsOfFirst } from '../../request/index.ts'
import type { LatencyGoals, RoutingHints } from '../../request/index.ts'
import type { ApiKey } from './api-key.ts'
import type { Caller } from './caller.ts'

export function mayUseModel({ key }: Caller, names: readonly string[]): boolean {
  return key?.models === undefined || names.some((name) => key.models?.includes(name) === true)
}

/** Throws `request.permission_denied`. `names`: the name that the client used, and the model's own names. */
export function refuseOtherModels(caller: Caller, names: readonly string[]): void {
  if (mayUseModel(caller, names)) return
  throw new BatonError(
    'request.permission_denied',
    `this key may not use the model \`${names[0] ?? ''}\``,
    { data: { param: 'model' } },
  )
}

/** Fields that affect the answer but not where, when or for whom it is computed. */
const HARMLESS: ReadonlySet<string> = new Set([
  'greed_sampling',
  'use_raw_prompt',
  'token_data',
  'max_thinking_tokens',
  'cache_salt',
  'request_timestamp_ms',
])

/** Throws `request.permission_denied` when the key does not allow routing fields. */
export function refuseRouting({ key, mayRoute }: Caller, nvext: object): void {
  if (mayRoute) return
  const field = Object.keys(nvext).find(
    (name) => !HARMLESS.has(name) && !(name === 'agent_hints' && key?.priorityMax !== undefined),
  )
  if (field === undefined) return
  throw new BatonError(
    'request.permission_denied',
    `this key may not set \`nvext.${field}\`, in the body or as a header: it needs a key made with --routing`,
    { data: { param: `nvext.${field}` } },
  )
}

/** Lower than any priority that another request can ask for. */
const BACKGROUND = { priority: -1, strictPriority: -1 } as const

/**
 * The tenant is that of the key, whatever the client sends. Its KV cache is separate, unless the key shares it.
 */
export function tenantRouting(caller: Caller, hints: RoutingHints): RoutingHints {
  const routing = keyRouting(caller, hints)
  return caller.isBackground === true ? { ...routing, ...BACKGROUND } : routing
}

function keyRouting({ key, mayRoute }: Caller, hints: RoutingHints): RoutingHints {
  if (key === null) return hints
  const { cacheSalt = '', priority, strictPriority, policyClass, tenantWeight: _, ...rest } = hints
  const goals = goalsOfFirst(hints.goals, goalsOfKey(key))
  const ceiling = key.priorityMax ?? 0
  const salt = saltOf(key, cacheSalt)
  return {
    ...rest,
    tenantId: key.tenant,
    ...(goals === undefined ? {} : { goals }),
    ...(key.weight === undefined ? {} : { tenantWeight: key.weight }),
    ...(policyClass === undefined || !mayRoute ? {} : { policyClass }),
    ...(salt === '' ? {} : { cacheSalt: salt }),
    ...(priority === undefined ? {} : { priority: Math.min(priority, ceiling) }),
    ...(strictPriority === undefined ? {} : { strictPriority: Math.min(strictPriority, ceiling) }),
  }
}

/**
 * `asked` is the client's own salt. Whatever it contains, it cannot address a cache outside the key's tenant.
 */
function saltOf({ tenant, sharesCache }: ApiKey, asked: string): string {
  if (sharesCache !== true) return `tenant ${tenant}\u0000${asked}`
  return asked === '' ? '' : `shared\u0000${asked}`
}

function goalsOfKey({ ttftTargetMs, itlTargetMs }: ApiKey): LatencyGoals {
  return {
    ...(ttftTargetMs === undefined ? {} : { ttftMs: ttftTargetMs }),
    ...(itlTargetMs === undefined ? {} : { itlMs: itlTargetMs }),
  }
}
