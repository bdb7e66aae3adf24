import { describe, expect, it } from 'vitest'
import { card, ScriptedFrontend, WORKER } from '../../test/frontend/scripted-frontend.ts'

describe('LoRA adapters', () => {
  it('a model name of their own - the request carries the adapter, one of the model does not', async () => {
    const it_ = new ScriptedFrontend({ engine: { loraAdapters: ['poet'] } })
    for (const model of ['poet', 'storyteller']) {
      expect((await it_.chat({ model })).status).toBe(200)
    }
    expect(it_.requests.map(({ routing }) => routing.loraName)).toEqual(['poet', undefined])
    const models = (await it_.get('/v1/models')).body
    expect(models).toContain('"poet"')
  })

  it('no worker has it any more - 503, not an answer without it', async () => {
    const it_ = new ScriptedFrontend({ engine: { loraAdapters: ['poet'] } })
    it_.frontend.registry.workerJoined(card({}, WORKER))
    const reply = await it_.chat({ model: 'poet' })
    expect(reply.status).toBe(503)
    expect(reply.body).toContain('adapter `poet`')
    expect((await it_.chat({ model: 'storyteller' })).status).toBe(200)
  })
})
