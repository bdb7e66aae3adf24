import { describe, expect, it } from 'vitest'
import { faultOfReply } from '../../test/api/reply-of-document.ts'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'

interface Operation {
  readonly operationId: string
  readonly parameters?: readonly { name: string; in: string; required: boolean }[]
  readonly responses: Record<
    string,
    { description: string; content: Record<string, { schema: Record<string, unknown> }> }
  >
}
interface Document {
  readonly openapi: string
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { readonly schemas: Record<string, Record<string, unknown>> }
}

async function documentOf(it_: ScriptedFrontend): Promise<Document> {
  return (await it_.get('/openapi.json')).json as Document
}

describe('openapi.json', () => {
  it('every operation - has a unique id, declares every path parameter, and all references resolve', async () => {
    const document = await documentOf(new ScriptedFrontend())
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.values(methods).map((operation) => [path, operation] as const),
    )
    const ids = operations.map(([, { operationId }]) => operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const [path, { operationId, parameters = [], responses }] of operations) {
      expect(operationId).toMatch(/^[a-zA-Z][a-zA-Z0-9_]*$/)
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      const inPath = parameters.filter((each) => each.in === 'path')
      expect(inPath.map((each) => [each.name, each.in, each.required])).toEqual(
        names.map((name) => [name, 'path', true]),
      )
      for (const { description } of Object.values(responses)) expect(description).not.toBe('')
    }
    const references = JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)
    for (const [, name = ''] of references) expect(document.components.schemas).toHaveProperty(name)
  })

  it('replies match the document', async () => {
    const it_ = new ScriptedFrontend()
    const document = await documentOf(it_)
    const messages = [{ role: 'user', content: 'hi' }]
    const calls: readonly (readonly ['get' | 'post', string, string, unknown])[] = [
      ['post', '/v1/chat/completions', '', { messages }],
      ['post', '/v1/completions', '', { prompt: 'hi' }],
      ['post', '/inference/v1/generate', '', { token_ids: [5], sampling_params: {} }],
      ['post', '/v1/responses', '', { input: 'hi' }],
      ['post', '/v1/responses/input_tokens', '', { input: 'hi' }],
      ['post', '/v1/messages', '', { messages, max_tokens: 5 }],
      ['post', '/v1/messages/count_tokens', '', { messages }],
      ['get', '/v1/models', '', undefined],
      ['get', '/v1/models/{id}', 'storyteller', undefined],
      ['post', '/tokenize', '', { prompt: 'hi' }],
      ['post', '/detokenize', '', { tokens: [5] }],
      ['get', '/version', '', undefined],
      ['post', '/v1/chat/completions', '', { messages: [] }],
      ['post', '/v1/messages', '', { messages: [], max_tokens: 5 }],
      ['get', '/v1/models/{id}', 'nope', undefined],
    ]
    for (const [method, path, id, body] of calls) {
      const at = path.replace('{id}', id)
      const { status, json } = method === 'get' ? await it_.get(at) : await it_.post(at, body)
      const answered = { status, contentType: 'application/json', body: JSON.stringify(json) }
      expect([path, status, faultOfReply(document, method, path, answered)]).toEqual([
        path,
        status,
        null,
      ])
    }
  })

  it('models in the form of Anthropic - match the document', async () => {
    const it_ = new ScriptedFrontend()
    const document = await documentOf(it_)
    const headers = { 'anthropic-version': '2023-06-01' }
    for (const [path, at] of [
      ['/v1/models', '/v1/models'],
      ['/v1/models/{id}', '/v1/models/storyteller'],
      ['/v1/models/{id}', '/v1/models/nope'],
    ] as const) {
      const { status, json } = await it_.send('GET', at, { headers })
      expect(json.type ?? json.has_more).not.toBeUndefined()
      const answered = { status, contentType: 'application/json', body: JSON.stringify(json) }
      expect([at, faultOfReply(document, 'get', path, answered)]).toEqual([at, null])
    }
  })

  it('without a worker - the reply is the one documented for not ready', async () => {
    const it_ = new ScriptedFrontend({ empty: true })
    const document = await documentOf(it_)
    for (const path of ['/health', '/ready']) {
      const { status, json } = await it_.get(path)
      const answered = { status, contentType: 'application/json', body: JSON.stringify(json) }
      expect([path, status, faultOfReply(document, 'get', path, answered)]).toEqual([
        path,
        503,
        null,
      ])
    }
  })
})
