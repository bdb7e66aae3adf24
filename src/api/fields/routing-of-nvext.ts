/** Converts `nvext` and the session to routing hints. */
import { goalsOfFirst } from '../../request/index.ts'
import type { LatencyGoals, RouterOverrides, RoutingHints } from '../../request/index.ts'
import { isQueryOnly } from './nvext.ts'
import type { NvExt } from './nvext.ts'
import { given } from './plain-fields.ts'
import type { Headers, SessionIdentity } from './routing-headers.ts'

export function routingOf(
  nvext: NvExt,
  session: SessionIdentity | undefined,
  headers: Headers,
): RoutingHints {
  const hints = nvext.agent_hints
  const control = nvext.session_control
  const salt = nvext.cache_salt === '' ? undefined : nvext.cache_salt
  const tenant = headers['x-tenant-id']?.trim()
  return given({
    backendWorkerId: nvext.backend_instance_id,
    prefillWorkerId: nvext.prefill_worker_id,
    decodeWorkerId: nvext.decode_worker_id,
    dpRank: nvext.dp_rank,
    prefillDpRank: nvext.prefill_dp_rank,
    expectedOutputTokens: hints?.osl,
    cacheSalt: salt,
    priority: hints?.priority ?? hints?.latency_sensitivity,
    strictPriority: hints?.strict_priority,
    tenantId: tenant === '' ? undefined : tenant,
    sessionId: control?.session_id ?? session?.sessionId,
    sessionAction: control === undefined ? finalAction(session) : (control.action ?? 'bind'),
    sessionTimeoutSeconds: control?.timeout,
    requiredTaints: nvext.routing_constraints?.required_taints,
    preferredTaints: nvext.routing_constraints?.preferred_taints,
    queryOnly: isQueryOnly(nvext) ? true : undefined,
    policyClass: headers['x-dynamo-meta-policy-class']?.trim() || undefined,
    goals: goalsOf(nvext.router),
    overrides: overridesOf(nvext.router),
  })
}

function goalsOf(router: NvExt['router']): LatencyGoals | undefined {
  return goalsOfFirst(given({ ttftMs: router?.ttft_target, itlMs: router?.itl_target }))
}

function finalAction(session: SessionIdentity | undefined): 'close' | undefined {
  return session?.isFinal === true ? 'close' : undefined
}

function overridesOf(router: NvExt['router']): RouterOverrides | undefined {
  if (router === undefined) return undefined
  const overrides: RouterOverrides = given({
    overlapScoreWeight: router.overlap_score_weight,
    overlapScoreCredit: router.overlap_score_credit,
    prefillLoadScale: router.prefill_load_scale,
    sharedCacheMultiplier: router.shared_cache_multiplier,
    temperature: router.temperature,
    assumeKvReuse: router.assume_kv_reuse,
    trackPrefillTokens: router.track_prefill_tokens,
  })
  return Object.keys(overrides).length === 0 ? undefined : overrides
}
