import { describe, expect, it } from 'vitest'
import { card, ScriptedFrontend, WORKER } from '../../test/frontend/scripted-frontend.ts'

describe('LoRA adapters', () => {
  it('a model name of an adapter - the request carries the adapter, a request for the base model does not', async () => {
    const it_ = new ScriptedFrontend({ engine: { loraAdapters: ['poet'] } })
    for (const model of ['poet', 'storyteller']) {
      expect((await it_.chat({ model })).status).toBe(200)
    }
    expect(it_.requests.map(({ routing }) => routing.loraName)).toEqual(['poet', undefined])
    const models = (await it_.get('/v1/models')).body
    expect(models).toContain('"poet"')
  })

  it('an adapter that no worker has any more - 503 instead of an answer without it', async () => {
    const it_ = new ScriptedFrontend({ engine: { loraAdapters: ['poet'] } })
    it_.frontend.registry.workerJoined(card({}, WORKER))
    const reply = await it_.chat({ model: 'poet' })
    expect(reply.status).toBe(503)
    expect(reply.body).toContain('adapter `poet`')
    expect((await it_.chat({ model: 'storyteller' })).status).toBe(200)
  })
})
