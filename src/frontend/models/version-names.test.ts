import { describe, expect, it } from 'vitest'
import { card, ScriptedFrontend } from '../../../test/frontend/scripted-frontend.ts'
import { workerIdOf } from '../../base/index.ts'

/** Versions abc0 (v1) and abd0 (v2) of `storyteller`, 9990 without a name of `other`, and a refused abe0. */
function start(): ScriptedFrontend {
  const it_ = new ScriptedFrontend({ empty: true })
  const join = (id: number, checksum: string, change: object, model = 'storyteller'): void =>
    it_.frontend.registry.workerJoined({
      ...card({ kvCacheBlockSize: 16, model }, workerIdOf(id)),
      startedAtEpochMs: id,
      agreement: { tokenizer: 't', checksum, ...change },
      ...(checksum === 'abd0' ? { weight: 100 } : {}),
    })
  join(1, 'abc0', { weights: 'v1' })
  join(2, 'abd0', { weights: 'v2' })
  join(3, 'abe0', { weights: 'v3' })
  join(4, '9990', {}, 'other')
  return it_
}

async function weigh(it_: ScriptedFrontend, fields: object) {
  const reply = await it_.post('/admin/weights', { weight: 7, ...fields })
  if (reply.status !== 200) return { status: reply.status, message: reply.json.error.message }
  const weights = reply.json.weights as { model: string; version: string; weight: number }[]
  return weights.filter(({ weight }) => weight === 7).map(({ model, version }) => [model, version])
}

describe('POST /admin/weights', () => {
  it.each([['abd0'], ['abd'], ['storyteller@abd0'], ['v2'], ['storyteller@v2']])(
    'version %s - is that of the hash abd0',
    async (version) => {
      expect(await weigh(start(), { version })).toEqual([['storyteller', 'abd0']])
      expect(await weigh(start(), { version, model: 'storyteller' })).toEqual([
        ['storyteller', 'abd0'],
      ])
    },
  )

  it('a refused version, by its name - is served from then on', async () => {
    expect(await weigh(start(), { version: 'v3' })).toEqual([['storyteller', 'abe0']])
  })

  it('the version that refuses another one - the other one gets no requests by this', async () => {
    const it_ = start()
    const told: string[] = []
    expect(await weigh(it_, { version: 'v1' })).toEqual([['storyteller', 'abc0']])
    const { weights } = (await it_.get('/admin/weights')).json
    for (const { version, weight } of weights) told.push(`${version} ${weight}`)
    expect(told.toSorted()).toEqual(['9990 100', 'abc0 7', 'abd0 100', 'abe0 0'])
    expect(await weigh(it_, { version: 'v3' })).toContainEqual(['storyteller', 'abe0'])
  })

  it.each([
    [{ version: 'v4' }, '"v4" is not a known version'],
    [{ version: 'ab' }, '"ab" matches more than one version'],
    [{ version: 'v2', model: 'other' }, 'there is other@9990'],
  ])('%j - 400 that lists the known versions', async (fields, message) => {
    expect(await weigh(start(), fields)).toEqual({
      status: 400,
      message: expect.stringContaining(message),
    })
  })

  it('the list - contains all names; a model that is not served is 404', async () => {
    const it_ = start()
    expect(await weigh(it_, { version: 'x' })).toMatchObject({
      message: expect.stringMatching(
        /there are storyteller@abe0 \(v3\), storyteller@abc0 \(v1\), storyteller@abd0 \(v2\), other@9990$/,
      ),
    })
    const listed = (await it_.get('/admin/weights')).json.weights as object[]
    expect(listed).toContainEqual(
      expect.objectContaining({ version: 'abd0', model_version: 'v2', served: true }),
    )
    expect(await weigh(it_, { version: 'v2', model: 'nope' })).toMatchObject({ status: 404 })
  })
})
