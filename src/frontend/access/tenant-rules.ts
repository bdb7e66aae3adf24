/**
 * What a caller's key makes of a request: which models it may name, whose cache it uses, how important it may be.
 */
import { BatonError } from '../../base/index.ts'
import { goalsOfFirst } from '../../request/index.ts'
import type { LatencyGoals, RoutingHints } from '../../request/index.ts'
import type { ApiKey } from './api-key.ts'
import type { Caller } from './caller.ts'

export function mayUseModel({ key }: Caller, names: readonly string[]): boolean {
  return key?.models === undefined || names.some((name) => key.models?.includes(name) === true)
}

/** Throws `request.permission_denied`. `names`: what the client called the model, and what it is called. */
export function refuseOtherModels(caller: Caller, names: readonly string[]): void {
  if (mayUseModel(caller, names)) return
  throw new BatonError(
    'request.permission_denied',
    `this key may not use the model \`${names[0] ?? ''}\``,
    { data: { param: 'model' } },
  )
}

/** These change the answer and not where, when or for whom it is computed. */
const HARMLESS: ReadonlySet<string> = new Set([
  'greed_sampling',
  'use_raw_prompt',
  'token_data',
  'max_thinking_tokens',
  'cache_salt',
  'request_timestamp_ms',
])

/** What a client asks of the router is for keys that may. Throws `request.permission_denied`. */
export function refuseRouting({ key, mayRoute }: Caller, nvext: object): void {
  if (mayRoute) return
  const field = Object.keys(nvext).find(
    (name) => !HARMLESS.has(name) && !(name === 'agent_hints' && key?.priorityMax !== undefined),
  )
  if (field === undefined) return
  throw new BatonError(
    'request.permission_denied',
    `this key may not set \`nvext.${field}\`, in the body or as a header: that is for keys made with --routing`,
    { data: { param: `nvext.${field}` } },
  )
}

/** Below what anybody else may ask for. */
const BACKGROUND = { priority: -1, strictPriority: -1 } as const

/** The tenant is the key's, whatever the client says; its KV is its own, unless the key shares. */
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

/** `asked` is the client's own text: whatever it is, it names nothing outside of what the key may see. */
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
