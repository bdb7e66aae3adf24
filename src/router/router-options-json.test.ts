import { describe, expect, it } from 'vitest'

import { completeRouterConfig } from './router-config.ts'
import { parseRouterOptions } from './router-options-json.ts'

describe('parseRouterOptions', () => {
  it('own names - are taken as they are', () => {
    const json = { mode: 'kv', queueThreshold: null, deadlines: { queueMs: 5 } }
    expect(parseRouterOptions(json)).toEqual(json)
    expect(completeRouterConfig(parseRouterOptions(json)).deadlines.queueMs).toBe(5)
  })

  it('names of the field - mean the same', () => {
    const options = parseRouterOptions({
      overlap_score_credit: 0.5,
      router_temperature: 0.1,
      router_predicted_ttl_secs: null,
      router_queue_threshold: 16,
      session_affinity_soft: true,
      router_session_affinity_ttl_secs: 60,
      conditional_disagg_enabled: true,
      conditional_disagg_policy: 'isl_or_load',
      conditional_disagg_decode_busy_threshold: null,
    })
    expect(options).toEqual({
      overlapScoreCredit: 0.5,
      temperature: 0.1,
      queueThreshold: 16,
      session: { soft: true, ttlSeconds: 60 },
      conditional: { enabled: true, policy: 'isl_or_load', decodeBusyThreshold: null },
    })
    expect(completeRouterConfig(options).session.maxSessions).toBe(100_000)
  })

  it('older weight - scales prefill, 0 takes the credit away', () => {
    expect(parseRouterOptions({ overlap_score_weight: 2 })).toEqual({ prefillLoadScale: 2 })
    expect(parseRouterOptions({ overlap_score_weight: 0 })).toEqual({
      prefillLoadScale: 0,
      overlapScoreCredit: 0,
    })
  })

  it.each([
    [[], 'JSON object'],
    [{ router_speed: 1 }, "'router_speed' is not known"],
    [{ constructor: 1 }, "'constructor' is not known"],
    [{ 'session.soft': true }, "'session.soft' is not known"],
    [{ mode: 5 }, "'mode' must be a string"],
    [{ use_kv_events: 'yes' }, "'use_kv_events' must be a boolean"],
    [{ policyClasses: {} }, "'policyClasses' must be a list"],
  ])('%j - is refused and the option named', (json, message) => {
    expect(() => parseRouterOptions(json)).toThrow(message)
  })
})
