import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'

const said = () => new ScriptedFrontend({ script: (run) => void run.routed().says('ok').ends() })
const messages = [{ role: 'user', content: 'hi' }]
const image = { type: 'input_image', image_url: 'data:image/png;base64,AAAA' }
const user = { role: 'user', content: 'hi' }
const called = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
const output = { type: 'function_call_output', call_id: 'c', output: [image] }
const f = { name: 'f', input_schema: { type: 'object' } }

describe('errors of Responses and Messages - name the field that the client sent', () => {
  it.each([
    [
      'an image',
      { input: [user, { type: 'reasoning' }, { role: 'user', content: [image] }] },
      'input[2].content[0]',
    ],
    [
      'after instructions',
      { instructions: 'x', input: [{ role: 'user', content: [image] }] },
      'input[0].content[0]',
    ],
    ['in an output', { input: [user, called, called, output] }, 'input[3].output[0]'],
    ['the effort', { input: 'x', reasoning: { effort: 'banana' } }, 'reasoning.effort'],
    ['the length', { input: 'word '.repeat(5000) }, 'input'],
    ['a forced tool without tools', { input: 'x', tool_choice: 'required' }, 'tool_choice'],
    [
      'a named tool without tools',
      { input: 'x', tool_choice: { type: 'function', name: 'f' } },
      'tool_choice',
    ],
    [
      'a forced tool, only hosted ones',
      { input: 'x', tools: [{ type: 'web_search' }], tool_choice: 'required' },
      'tool_choice',
    ],
  ])('Responses, %s', async (_what, body, param) => {
    const { status, json } = await said().post('/v1/responses', body)
    expect([status, json.error.param]).toEqual([400, param])
    if (!/context length/.test(json.error.message))
      expect(json.error.message).toContain(`\`${param}\``)
  })

  it.each([
    ['/v1/responses', { input: 'hi' }, 'input'],
    ['/v1/responses/input_tokens', { input: 'hi' }, 'input'],
    ['/v1/chat/completions', { messages }, 'messages'],
    ['/v1/messages', { messages, max_tokens: 9 }, 'messages'],
  ])('%s, a model without a chat template', async (path, body, param) => {
    const loadText = () => Promise.resolve({ ...storyteller(), template: null })
    const { status, json } = await new ScriptedFrontend({ options: { loadText } }).post(path, body)
    expect(status).toBe(400)
    expect(json.error.message).toContain(`\`${param}\``)
    if (path !== '/v1/messages') expect(json.error.param).toBe(param)
  })

  it.each([
    ['no raw prompt', { content: '', use_raw_prompt: true }, 'messages'],
    [
      'tokens over the context length',
      { content: 'hi', token_data: Array(5000).fill(1) },
      'nvext.token_data',
    ],
  ])('Chat, %s', async (_what, { content, ...nvext }, param) => {
    const { status, json } = await said().chat({ messages: [{ role: 'user', content }], nvext })
    expect([status, json.error.param]).toEqual([400, param])
    expect(json.error.message).toContain(param)
  })

  it.each([
    ['stop sequences', { stop_sequences: Array(33).fill('x') }, 'stop_sequences'],
    ['any tool without tools', { tool_choice: { type: 'any' } }, 'tool_choice'],
    ['a named tool without tools', { tool_choice: { type: 'tool', name: 'f' } }, 'tool_choice'],
  ])('Messages, %s', async (_what, body, param) => {
    const { status, json } = await said().post('/v1/messages', { messages, max_tokens: 9, ...body })
    expect([status, json.error.type]).toEqual([400, 'invalid_request_error'])
    expect(json.error.message).toContain(`\`${param}\``)
  })

  it('the effort max - is accepted in every API, as the SDKs list it', async () => {
    for (const [path, body] of [
      ['/v1/chat/completions', { messages, reasoning_effort: 'max' }],
      ['/v1/responses', { input: 'x', reasoning: { effort: 'max' } }],
      ['/v1/messages', { messages, max_tokens: 9, output_config: { effort: 'max' } }],
    ] as const) {
      expect([path, (await said().post(path, body)).status]).toEqual([path, 200])
    }
  })

  it('options of the prompt cache - are accepted, moderation is refused', async () => {
    const prompt_cache_options = { mode: 'explicit', ttl: '30m' }
    for (const [path, body] of [
      ['/v1/chat/completions', { messages }],
      ['/v1/responses', { input: 'x' }],
    ] as const) {
      const taken = await said().post(path, { ...body, prompt_cache_options })
      expect([path, taken.status]).toEqual([path, 200])
      const { status, json } = await said().post(path, { ...body, moderation: { model: 'm' } })
      expect([path, status, json.error.param]).toEqual([path, 400, 'moderation'])
    }
  })

  it('auto and none without tools, and 32 stop sequences - are accepted', async () => {
    for (const body of [
      { tool_choice: { type: 'auto' } },
      { tool_choice: { type: 'none' } },
      { stop_sequences: Array(32).fill('x') },
      { tools: [f], tool_choice: { type: 'any' } },
    ]) {
      const { status } = await said().post('/v1/messages', { messages, max_tokens: 9, ...body })
      expect([body, status]).toEqual([body, 200])
    }
    for (const tool_choice of ['auto', 'none']) {
      const { status } = await said().post('/v1/responses', { input: 'x', tool_choice })
      expect([tool_choice, status]).toEqual([tool_choice, 200])
    }
  })
})
