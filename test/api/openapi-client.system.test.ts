import { Validator } from '@seriousme/openapi-schema-validator'
import { OpenAPIClientAxios } from 'openapi-client-axios'
import type { Document, OpenAPIClient } from 'openapi-client-axios'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { faultOfReply, faultOfRequest } from './reply-of-document.ts'
import type { ApiDocument } from './reply-of-document.ts'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { until } from '../until.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-openapi-'))
const MODEL = 'storyteller'

describe('a client generated from /openapi.json', () => {
  let server: RunningServer
  let client: OpenAPIClient
  let document: Document
  beforeAll(async () => {
    const sim = ['--engine', 'sim', '--sim-speedup', '0', '--in-process', '--aggregated', '1']
    server = await startServer([...sim, '--files-dir', folder])
    document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document
    const api = new OpenAPIClientAxios({ definition: structuredClone(document) })
    client = await api.init()
    client.defaults.baseURL = server.url
    client.defaults.validateStatus = () => true
  })
  afterAll(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  /** Sends a request and validates the reply against the document. */
  const send = async (method: string, path: string, at: string, body?: unknown) => {
    const reply = await fetch(server.url + at, {
      method: method.toUpperCase(),
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const contentType = reply.headers.get('content-type') ?? ''
    const text = await reply.text()
    const answered = { status: reply.status, contentType, body: text }
    const fault = faultOfReply(document as unknown as ApiDocument, method, path, answered)
    expect([method, path, reply.status, fault]).toEqual([method, path, reply.status, null])
    const asked = reply.ok && body !== undefined
    const wrong = asked
      ? faultOfRequest(document as unknown as ApiDocument, method, path, body)
      : null
    expect([method, path, wrong]).toEqual([method, path, null])
    const isJson = contentType.startsWith('application/json')
    const data = (isJson ? JSON.parse(text) : {}) as Record<string, unknown>
    return { status: reply.status, data }
  }

  const call = async (name: string, id: unknown, body?: unknown) => {
    const operation = client[name]
    if (operation === undefined) throw new Error(`no operation ${name}`)
    const { status, data } = await operation(id as never, body)
    return { status, data: data as Record<string, unknown> }
  }

  it('an independent validator - accepts the document as OpenAPI 3.1', async () => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate(structuredClone({ ...document }))
    expect([valid, errors]).toEqual([true, undefined])
    expect(validator.version).toBe('3.1')
  })

  it('operations by their ids - generate, count, rank and read', async () => {
    const messages = [{ role: 'user', content: 'hi' }]
    const max_tokens = 4
    expect(
      await call('post_v1_chat_completions', null, { model: MODEL, messages, max_tokens }),
    ).toMatchObject({ status: 200, data: { object: 'chat.completion' } })
    expect(
      await call('post_v1_messages', null, { model: MODEL, messages, max_tokens }),
    ).toMatchObject({ status: 200, data: { type: 'message' } })
    expect(await call('post_v1_rerank', null, { query: 'a', documents: ['b', 'c'] })).toMatchObject(
      {
        status: 200,
        data: { results: [{}, {}] },
      },
    )
    expect(await call('post_tokenize', null, { prompt: 'hi' })).toMatchObject({ status: 200 })
    expect(await call('get_v1_models_id', MODEL)).toMatchObject({ data: { id: MODEL } })
    expect(await call('get_v1_models_id', 'nobody')).toMatchObject({ status: 404 })
    expect(await call('post_clear_kv_blocks', null)).toMatchObject({
      status: 200,
      data: { failed_workers: [] },
    })
    expect(
      await call('post_v1_chat_completions', null, { model: MODEL, messages: [] }),
    ).toMatchObject({ status: 400, data: { error: { param: 'messages' } } })
  })

  it('stored responses, conversations, files and batches - work through their paths', async () => {
    const asked = { model: MODEL, input: 'hi', max_output_tokens: 4, background: true }
    const { data: response } = await call('post_v1_responses', null, asked)
    await until('it has ended', async () => {
      const { data } = await call('get_v1_responses_id', response['id'])
      return data['status'] !== 'in_progress'
    })
    const { data: list } = await call('get_v1_responses_id_input_items', response['id'])
    expect(list['data']).toHaveLength(1)
    expect((await call('post_v1_responses_id_cancel', response['id'])).status).toBe(400)
    const { data: conversation } = await call('post_v1_conversations', null, {})
    const items = [{ type: 'message', role: 'user', content: 'hi' }]
    const at = conversation['id']
    expect((await call('post_v1_conversations_id_items', at, { items })).status).toBe(200)
    expect((await call('get_v1_conversations_id_items', at)).data['data']).toHaveLength(1)

    const form = new FormData()
    const url = '/v1/completions'
    const line = { custom_id: 'a', url, body: { model: MODEL, prompt: 'a', max_tokens: 2 } }
    form.set('purpose', 'batch')
    form.set('file', new Blob([JSON.stringify(line)]), 'in.jsonl')
    const { data: file } = await call('post_v1_files', null, form)
    const { data: batch } = await call('post_v1_batches', null, {
      input_file_id: file['id'],
      endpoint: url,
      completion_window: '1h',
    })
    let now = batch
    await until('the batch has ended', async () => {
      now = (await call('get_v1_batches_id', batch['id'])).data
      return now['status'] === 'completed'
    })
    const output = await call('get_v1_files_id_content', now['output_file_id'])
    expect(JSON.stringify(output.data)).toContain('text_completion')
    expect((await call('post_v1_batches_id_cancel', batch['id'])).status).toBe(409)
  })

  it('every operation - answers and refuses as documented', async () => {
    const messages = [{ role: 'user', content: 'hi' }]
    const max_tokens = 4
    const post = async (path: string, body: unknown) => await send('post', path, path, body)
    const { data: response } = await post('/v1/responses', { input: 'a', max_output_tokens: 4 })
    const [said] = response['output'] as { id: string }[]
    const question = { role: 'user', content: 'a' }
    const { data: talk } = await post('/v1/conversations', {})
    const items = [{ type: 'message', role: 'user', content: 'hi' }]
    const at = `/v1/conversations/${String(talk['id'])}/items`
    const { data: added } = await send('post', '/v1/conversations/{id}/items', at, { items })
    const [item] = added['data'] as { id: string }[]
    const schema = { type: 'object', properties: { a: { type: 'boolean' } }, required: ['a'] }
    const tool = { type: 'function', function: { name: 'f', parameters: schema } }
    const bodies: Readonly<Record<string, readonly unknown[]>> = {
      '/v1/chat/completions': [
        { messages, max_tokens, logprobs: true, top_logprobs: 2, n: 2 },
        { messages, tools: [tool], tool_choice: 'required' },
        { messages, max_tokens, return_token_ids: true, stream: true },
        { messages, max_tokens: 0 },
      ],
      '/v1/completions': [{ prompt: ['a', 'b'], max_tokens, logprobs: 1, echo: true }],
      '/inference/v1/generate': [{ token_ids: [5], sampling_params: { max_tokens } }],
      '/v1/responses': [
        { input: 'hi', max_output_tokens: 4, stream: true },
        { input: 'hi', max_output_tokens: 4, previous_response_id: response['id'] },
        { input: 'hi', max_output_tokens: 4, conversation: talk['id'] },
        { input: 'hi', max_output_tokens: 4, background: true },
        { input: [{ type: 'item_reference', id: said?.id }, question], max_output_tokens: 4 },
      ],
      '/v1/responses/input_tokens': [{ input: 'hi', previous_response_id: response['id'] }],
      '/v1/messages': [
        { messages, max_tokens },
        { messages, max_tokens, stream: true },
      ],
      '/v1/messages/count_tokens': [{ messages }],
      '/v1/embeddings': [{ input: ['a', 'b'] }, { input: 'a', encoding_format: 'base64' }],
      '/v1/rerank': [{ query: 'a', documents: ['b'], return_documents: true }],
      '/v1/score': [{ text_1: 'a', text_2: ['b', 'c'] }],
      '/tokenize': [{ prompt: 'hi', return_token_strs: true }, { messages }],
      '/detokenize': [{ tokens: [5] }],
      '/busy_threshold': [{ model: MODEL, active_decode_blocks_threshold: 0.9 }],
    }
    for (const [path, sent] of Object.entries(bodies))
      for (const body of sent) expect([path, (await post(path, body)).status]).toEqual([path, 200])
    const gets: readonly (readonly [path: string, at?: string])[] = [
      ['/v1/models'],
      ['/v1/models/{id}', `/v1/models/${MODEL}`],
      ['/v1/models/{id}/ready', `/v1/models/${MODEL}/ready`],
      ['/v1/responses/{id}', `/v1/responses/${String(response['id'])}`],
      ['/v1/responses/{id}/input_items', `/v1/responses/${String(response['id'])}/input_items`],
      ['/v1/conversations/{id}', `/v1/conversations/${String(talk['id'])}`],
      ['/v1/conversations/{id}/items', at],
      ['/v1/conversations/{id}/items/{item}', `${at}/${item?.id}`],
      ['/v1/files'],
      ['/v1/batches'],
      ['/version'],
      ['/health'],
      ['/live'],
      ['/ready'],
      ['/metrics'],
      ['/busy_threshold'],
      ['/debug/requests'],
      ['/debug/fleet'],
      ['/admin/keys'],
      ['/admin/workers'],
      ['/admin/weights'],
      ['/'],
      ['/docs'],
      ['/openapi.json'],
    ]
    for (const [path, where] of gets)
      expect([path, (await send('get', path, where ?? path)).status]).toEqual([path, 200])
    const deletes = [
      ['/v1/conversations/{id}/items/{item}', `${at}/${item?.id}`],
      ['/v1/conversations/{id}', `/v1/conversations/${String(talk['id'])}`],
      ['/v1/responses/{id}', `/v1/responses/${String(response['id'])}`],
    ] as const
    for (const [path, where] of deletes)
      expect([path, (await send('delete', path, where)).status]).toEqual([path, 200])
    // Invalid or missing input: every operation refuses in the documented format.
    for (const [path, methods] of Object.entries(document.paths ?? {})) {
      for (const method of Object.keys(methods ?? {})) {
        if (path === '/debug/events') continue
        const body = method === 'post' ? { bogus: 1 } : undefined
        await send(method, path, path.replace(/\{\w+\}/g, 'x'), body)
      }
    }
  })

  it('every documented path - has a route', async () => {
    for (const [path, methods] of Object.entries(document.paths ?? {})) {
      for (const method of Object.keys(methods ?? {})) {
        if (path === '/debug/events') continue
        const reply = await fetch(server.url + path.replace(/\{\w+\}/g, 'x'), {
          method: method.toUpperCase(),
          headers: { 'content-type': 'application/json' },
          ...(method === 'post' ? { body: '{"bogus":1}' } : {}),
        })
        const text = await reply.text()
        expect([method, path, reply.status === 405, text.includes('Route not found')]).toEqual([
          method,
          path,
          false,
          false,
        ])
      }
    }
  })
})
