import { describe, expect, it } from 'vitest'

import { completeRouterConfig, listRouterOptions } from './router-config.ts'
import { ROUTER_OPTION_TABLE } from './router-option-table.ts'
import { parseRouterOptions } from './router-options-json.ts'

describe('parseRouterOptions', () => {
  it("Baton's own names - are accepted", () => {
    const json = { mode: 'kv', queueThreshold: null, deadlines: { queueMs: 5 } }
    expect(parseRouterOptions(json)).toEqual(json)
    expect(completeRouterConfig(parseRouterOptions(json)).deadlines.queueMs).toBe(5)
  })

  it("Dynamo's names - have the same meaning", () => {
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

  it('overlap_score_weight - scales prefill, and 0 disables the credit', () => {
    expect(parseRouterOptions({ overlap_score_weight: 2 })).toEqual({ prefillLoadScale: 2 })
    expect(parseRouterOptions({ overlap_score_weight: 0 })).toEqual({
      prefillLoadScale: 0,
      overlapScoreCredit: 0,
    })
  })

  it('groups - a Dynamo name that sets a field can be combined with the group', () => {
    expect(parseRouterOptions({ session_affinity_soft: true, session: { ttlSeconds: 9 } })).toEqual(
      { session: { soft: true, ttlSeconds: 9 } },
    )
    expect(parseRouterOptions({ topology: null })).toEqual({ topology: null })
  })

  it('table - every default is valid, and every option of a configuration is listed', () => {
    const config = completeRouterConfig({
      topology: { domain: 'rack', enforcement: 'preferred', preferredWeight: 1 },
      busy: { activeDecodeBlocks: 0.9, activePrefillTokens: 1, activePrefillTokensShare: 1 },
    })
    const given = listRouterOptions(config)
    expect(given.map(({ path }) => path.replace('[0]', '[]'))).toEqual(
      ROUTER_OPTION_TABLE.map(({ path }) => path),
    )
    const { filters: _f, scorers: _s, picker: _p, sharedCache: _c, ...file } = config
    expect(parseRouterOptions(JSON.parse(JSON.stringify(file)))).toEqual(file)
  })

  it.each([
    [[], 'names and values', undefined],
    [{ router_speed: 1 }, "'router_speed' is not known", 'router_speed'],
    [{ constructor: 1 }, "'constructor' is not known", 'constructor'],
    [{ 'session.soft': true }, "'session.soft' is not known; there are: mode", 'session.soft'],
    [{ mode: 5 }, "'mode' must be one of kv, round-robin", 'mode'],
    [{ use_kv_events: 'yes' }, "'use_kv_events' must be true or false", 'use_kv_events'],
    [{ overlap_score_weight: -1 }, "'overlap_score_weight' must be", 'overlap_score_weight'],
    [{ policyClasses: {} }, "'policyClasses' must be a list", 'policyClasses'],
    [{ policyClasses: ['a'] }, "'policyClasses[0]' must be an object", 'policyClasses[0]'],
    [
      { policyClasses: [{ name: 'a' }, { name: 'b', quantum: 0 }] },
      "'policyClasses[1].quantum' must be a number above 0, got 0",
      'policyClasses[1].quantum',
    ],
    [{ busy: { blocks: 1 } }, "'busy.blocks' is not known; there are: activeDec", 'busy.blocks'],
    [{ busy: { activeDecodeBlocks: 1.1 } }, 'between 0 and 1', 'busy.activeDecodeBlocks'],
    [{ session: null }, "'session' must be an object", 'session'],
    [{ topology: { enforcement: 'hard' } }, 'required, preferred', 'topology.enforcement'],
    [{ queueThreshold: -1 }, 'null or a number of at least 0', 'queueThreshold'],
    [{ explainRecords: 1.5 }, 'a whole number above 0, got 1.5', 'explainRecords'],
  ])('%j - is refused by its path', (json, message, option) => {
    const parse = (): unknown => parseRouterOptions(json)
    expect(parse).toThrow(message)
    const data = option === undefined ? {} : { option }
    expect(parse).toThrow(expect.objectContaining({ code: 'config.invalid', data }))
  })
})
