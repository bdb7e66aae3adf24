import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'
import type { Script } from '../../test/frontend/scripted-frontend.ts'

const ENGINE = { features: ['embeddings'] as const, embeddingLength: 2, contextLength: 64 }
/** The more tokens a text has, the larger the angle of its vector. */
const answers: Script = (run) => {
  const { length } = run.request.tokenIds
  run
    .routed()
    .ends('stop', { embedding: Float32Array.of(Math.cos(length / 20), Math.sin(length / 20)) })
}
const start = () => new ScriptedFrontend({ script: answers, engine: ENGINE })
const MODEL = { model: 'storyteller' }

describe('rerank', () => {
  const query = 'a fox'
  const documents = ['a fox that runs through the dark wood', 'a dog', { text: 'a fox and a dog' }]

  it.each(['/v1/rerank', '/rerank', '/v2/rerank', '/v1/reranking'])(
    '%s - the nearest first, with its index in the list',
    async (path) => {
      const { status, json } = await start().post(path, { ...MODEL, query, documents })
      expect(status).toBe(200)
      expect(json).toMatchObject({ object: 'list', model: 'storyteller' })
      const { results, usage } = json
      expect(results.map((each: { index: number }) => each.index)).toEqual([1, 2, 0])
      expect(results[0]).toMatchObject({ index: 1, document: { text: 'a dog' } })
      expect(results[0].relevance_score).toBeGreaterThan(results[1].relevance_score)
      expect(usage.total_tokens).toBe(usage.prompt_tokens)
      expect(usage.total_tokens).toBeGreaterThan(10)
    },
  )

  it('top_n and return_documents', async () => {
    const ask = async (fields: object) =>
      (await start().post('/v1/rerank', { ...MODEL, query, documents, ...fields })).json.results
    expect(await ask({ top_n: 0 })).toHaveLength(3)
    expect(await ask({ top_n: 1 })).toHaveLength(1)
    expect(await ask({ top_n: 9 })).toHaveLength(3)
    expect((await ask({ return_documents: false }))[0]).not.toHaveProperty('document')
  })

  it.each([
    ['query', { documents }],
    ['documents', { query }],
    ['documents', { query, documents: [] }],
    ['documents', { query, documents: Array.from({ length: 2049 }, () => 'x') }],
    ['top_n', { query, documents, top_n: -1 }],
    ['bogus', { query, documents, bogus: 1 }],
    ['query', { query: '', documents }],
    ['documents[1]', { query, documents: ['a', ''] }],
    ['documents[1].text', { query, documents: ['a', { text: '' }] }],
    ['query', { query: 'fox '.repeat(90), documents }],
    ['documents[2]', { query, documents: ['a', 'b', 'fox '.repeat(90)] }],
    ['documents[2]', { query, documents: ['a', 'b', 'fox'.repeat(300_000)] }],
  ])('400 that names `%s`', async (param, fields) => {
    const { status, json } = await start().post('/v1/rerank', { ...MODEL, ...fields })
    expect([status, json.error.param]).toEqual([400, param])
    expect(json.error.message).toContain(param)
    expect(json.error.message).not.toContain('input')
  })
})

describe('score', () => {
  it.each([
    ['queries', 'documents'],
    ['queries', 'items'],
    ['data_1', 'data_2'],
  ])('%s and %s - are other names of vLLM for the same route', async (first, second) => {
    const ask = async (fields: object) =>
      (await start().post('/v1/score', { ...MODEL, ...fields })).json.data
    const scores = await ask({ text_1: 'a fox', text_2: ['a dog', 'a'] })
    expect(scores).toHaveLength(2)
    expect(await ask({ [first]: 'a fox', [second]: ['a dog', 'a'] })).toEqual(scores)
    const both = { ...MODEL, text_1: 'a', text_2: 'b', [first]: 'c' }
    expect((await start().post('/v1/score', both)).json.error.param).toBe(first)
  })

  it.each(['/v1/score', '/score'])(
    '%s - one text with several, or as many with as many',
    async (path) => {
      const scores = async (text_1: unknown, text_2: unknown) => {
        const { status, json } = await start().post(path, { ...MODEL, text_1, text_2 })
        expect(status).toBe(200)
        return json.data.map((each: { score: number }) => each.score)
      }
      const [same, other] = await scores('a fox', ['a fox', 'a fox in the dark wood'])
      expect(same).toBeCloseTo(1, 6)
      expect(other).toBeLessThan(same)
      expect(await scores(['a', 'a dog'], ['a dog', 'a'])).toHaveLength(2)
      expect(await scores('a', 'a')).toHaveLength(1)
    },
  )

  it('lists of different lengths - 400', async () => {
    const fields = { ...MODEL, text_1: ['a', 'b'], text_2: ['a', 'b', 'c'] }
    const { status, json } = await start().post('/v1/score', fields)
    expect([status, json.error.param]).toEqual([400, 'text_1'])
  })

  const long = 'fox '.repeat(90)
  it.each([
    ['text_1', { text_1: '', text_2: 'a' }],
    ['text_2[1]', { text_1: 'a', text_2: ['b', ''] }],
    ['text_1[1]', { text_1: ['a', long], text_2: ['b', long] }],
    ['text_2', { text_1: 'a', text_2: long }],
    ['documents[1]', { queries: 'a', documents: ['b', ''] }],
    ['queries', { queries: long, items: 'a' }],
    ['queries', { queries: ['a', 'b'], items: ['a'] }],
    ['items', { queries: 'a', items: 5 }],
    ['data_1', { data_1: [], data_2: 'a' }],
    ['data_2', { data_1: 'a', data_2: Array.from({ length: 2049 }, () => 'x') }],
  ])('400 that names `%s`', async (param, fields) => {
    const { status, json } = await start().post('/v1/score', { ...MODEL, ...fields })
    expect([status, json.error.param]).toEqual([400, param])
    expect(json.error.message).toContain(param)
    const others = Object.hasOwn(fields, 'text_1')
      ? /`input`|your input/
      : /`input`|your input|text_/
    expect(json.error.message).not.toMatch(others)
  })
})

describe('a model without ranking and embeddings', () => {
  it.each(['/v1/rerank', '/rerank', '/v1/score', '/score'])(
    '%s - 400 with the reason',
    async (path) => {
      const both = { query: 'a', documents: ['b'], text_1: 'a', text_2: 'b' }
      const { query, documents, text_1, text_2 } = both
      const fields = path.endsWith('score') ? { text_1, text_2 } : { query, documents }
      const { status, json } = await new ScriptedFrontend().post(path, { ...MODEL, ...fields })
      expect(status).toBe(400)
      expect(json.error).toMatchObject({ code: 'unsupported_parameter', param: 'model' })
      expect(json.error.message).toContain('--reranking')
    },
  )

  it('a model that is not served - 404', async () => {
    const fields = { model: 'nobody', query: 'a', documents: ['b'] }
    expect((await new ScriptedFrontend().post('/v1/rerank', fields)).status).toBe(404)
  })
})
