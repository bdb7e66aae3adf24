import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../base/index.ts'
import { card, ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'

describe('features of the engine', () => {
  it('fields that the engine does not support - are refused by name; those without effect are accepted', async () => {
    const it_ = new ScriptedFrontend()
    it_.frontend.registry.workerJoined(card({ features: ['logprobs'] }))
    const wanted = {
      seed: 1,
      min_p: 0.1,
      presence_penalty: 1,
      frequency_penalty: 1,
      repetition_penalty: 1.1,
      logit_bias: { 5: 1 },
      response_format: { type: 'json_object' },
    }
    for (const [name, value] of Object.entries(wanted)) {
      const reply = await it_.chat({ [name]: value })
      expect([name, reply.status, reply.json.error.param]).toEqual([name, 400, name])
    }
    expect((await it_.chat({ logprobs: true, min_p: 0, repetition_penalty: 1 })).status).toBe(200)
  })

  it('one worker names none - fields that need one are refused', async () => {
    const it_ = new ScriptedFrontend({ engine: { features: ['seed', 'guided'] } })
    it_.frontend.registry.workerJoined(card({ features: [] }, workerIdOf(2)))
    for (const [name, value] of [
      ['seed', 1],
      ['response_format', { type: 'json_object' }],
    ] as const) {
      const reply = await it_.chat({ [name]: value })
      expect([reply.status, reply.json.error.param]).toEqual([400, name])
    }
    expect((await it_.chat()).status).toBe(200)
  })

  it('workers of 0.1 do not say - only others get requests that need features, and /health says so', async () => {
    const it_ = new ScriptedFrontend({ engine: {} })
    const warnings = async () => (await it_.get('/health')).json.warnings.join()
    expect((await it_.chat({ seed: 1 })).status).toBe(200)
    expect(await warnings()).toMatch(/1 workers of storyteller .* may have no effect/)
    it_.frontend.registry.workerJoined(card({ features: ['seed'] }, workerIdOf(2)))
    const prefill = { ...card({ features: ['seed'] }, workerIdOf(3)), mode: 'prefill' as const }
    it_.frontend.registry.workerJoined(prefill)
    await it_.chat({ seed: 1 })
    await it_.chat()
    const needs = it_.requests.map(({ routing }) => routing.needsStatedFeatures)
    expect(needs).toEqual([undefined, true, undefined])
    expect((await it_.chat({ min_p: 0.1 })).json.error.param).toBe('min_p')
    expect(await warnings()).toMatch(/ are sent to the other workers only/)
  })

  it('workers that get requests unchanged do not say - no warning, as their servers know the fields', async () => {
    const it_ = new ScriptedFrontend({ engine: { runtimeData: { forwarded: true } } })
    expect((await it_.get('/health')).json.warnings).toEqual([])
  })

  it('only a prefill worker says - the others get the request, as before', async () => {
    const it_ = new ScriptedFrontend({ engine: {} })
    const prefill = { ...card({ features: ['seed'] }, workerIdOf(3)), mode: 'prefill' as const }
    it_.frontend.registry.workerJoined(prefill)
    expect((await it_.chat({ seed: 1 })).status).toBe(200)
    const { routing } = it_.requests[0]!
    expect([routing.allowedWorkerIds, routing.needsStatedFeatures]).toEqual([undefined, undefined])
  })
})
