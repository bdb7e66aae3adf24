import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'
import type { ScriptedOptions } from '../../test/frontend/scripted-frontend.ts'

const SAYS = 'Once upon a time – 🦊'
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
const TOOLS = [
  { name: 'weather', input_schema: { type: 'object', properties: { city: { type: 'string' } } } },
]

function start(options: ScriptedOptions = {}) {
  const it_ = new ScriptedFrontend({
    script: (run) => void run.routed().says(SAYS).ends('eos'),
    ...options,
  })
  const messages = (fields: Record<string, unknown> = {}) =>
    it_.post('/v1/messages', {
      model: 'storyteller',
      max_tokens: 50,
      messages: [{ role: 'user', content: 'hi' }],
      ...fields,
    })
  return { it_, messages }
}

describe('anthropic messages', () => {
  it('a whole reply - content, stop reason, usage', async () => {
    const { it_, messages } = start()
    const { json } = await messages({ system: 'be brief', top_k: 5 })
    expect(json).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'storyteller',
      content: [{ type: 'text', text: SAYS }],
      stop_reason: 'end_turn',
      stop_sequence: null,
    })
    expect(json.id).toMatch(/^msg_/)
    expect(json.usage.input_tokens).toBe(it_.requests[0]?.tokenIds.length)
    expect(it_.requests[0]).toMatchObject({ sampling: { topK: 5 }, stop: { maxTokens: 50 } })
  })

  it('a stream - events in order; joined they give the whole text', async () => {
    const { messages } = start()
    const reply = await messages({ stream: true })
    const names = [...reply.sse.matchAll(/^event: (.*)$/gm)].map((match) => match[1])
    expect(names.filter((name) => name !== 'content_block_delta')).toEqual([
      'message_start',
      'ping',
      'content_block_start',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
    const deltas = reply.events.filter((event) => event.type === 'content_block_delta')
    expect(deltas.map((event) => event.delta.text).join('')).toBe(SAYS)
    expect(reply.events.at(-2)).toMatchObject({ delta: { stop_reason: 'end_turn' } })
    expect(reply.ended).toBe(true)
  })

  it('stop sequence, length - the stop reason is named', async () => {
    const { it_, messages } = start({ script: (run) => void run.says('a STOP b') })
    expect((await messages({ stop_sequences: ['STOP'] })).json).toMatchObject({
      content: [{ text: 'a ' }],
      stop_reason: 'stop_sequence',
      stop_sequence: 'STOP',
    })
    it_.script = (run) => void run.says('a').ends('length')
    expect((await messages()).json.stop_reason).toBe('max_tokens')
  })

  it('tools - are called, and their results are accepted', async () => {
    const { it_, messages } = start({ script: (run) => void run.says(CALL).ends('eos') })
    const { json } = await messages({ tools: TOOLS })
    expect(json.stop_reason).toBe('tool_use')
    expect(json.content.at(-1)).toMatchObject({
      type: 'tool_use',
      name: 'weather',
      input: { city: 'Oslo' },
    })
    const streamed = await messages({ tools: TOOLS, stream: true })
    const parts = streamed.events
      .filter((event) => event.delta?.type === 'input_json_delta')
      .map((event) => event.delta.partial_json)
    expect(JSON.parse(parts.join(''))).toEqual({ city: 'Oslo' })

    const turn = [
      { role: 'user', content: 'weather?' },
      { role: 'assistant', content: json.content },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: json.content.at(-1).id, content: 'rain' }],
      },
    ]
    it_.script = (run) => void run.says('It rains.').ends('eos')
    expect((await messages({ tools: TOOLS, messages: turn })).json.content[0].text).toBe(
      'It rains.',
    )
  })

  it.each(['<tool_call>{"name":"weather","arguments":{"city', '<tool_call>{"name":"weather"'])(
    'a call cut off by the token limit - max_tokens, and no argument is invented: %s',
    async (cut) => {
      const { messages } = start({ script: (run) => void run.says(cut).ends('length') })
      const { json } = await messages({ tools: TOOLS })
      expect(json.stop_reason).toBe('max_tokens')
      for (const block of json.content)
        if (block.type === 'tool_use') expect(block.input).toEqual({})
      const streamed = await messages({ tools: TOOLS, stream: true })
      expect(streamed.events.find((event) => event.type === 'message_delta')).toMatchObject({
        delta: { stop_reason: 'max_tokens' },
      })
    },
  )

  it('large integers and special names in a tool input - keep every digit', async () => {
    const said = '{"id":12345678901234567890,"decode_worker_id":1234567890123456789,"ä":1.50}'
    const call = `<tool_call>{"name":"weather","arguments":${said}}</tool_call>`
    const { messages } = start({ script: (run) => void run.says(call).ends('eos') })
    const { body } = await messages({ tools: TOOLS })
    expect(body).toContain(`"input":${said.replace('ä', String.raw`\u00e4`)}`)
  })

  it('forced tool - the output is held to its schema and returned as a call', async () => {
    const { it_, messages } = start({
      script: (run) => void run.says('{"name":"weather","arguments":{"city":"Oslo"}}').ends('eos'),
    })
    const { json } = await messages({ tools: TOOLS, tool_choice: { type: 'any' } })
    expect(it_.requests[0]?.sampling.guided?.kind).toBe('json-schema')
    expect(json.content).toMatchObject([{ type: 'tool_use', input: { city: 'Oslo' } }])
  })

  it('refusals - have the error format of this API', async () => {
    const { messages } = start()
    for (const [fields, status, type] of [
      [{ messages: [] }, 400, 'invalid_request_error'],
      [{ max_tokens: 0 }, 400, 'invalid_request_error'],
      [{ messages: [{ role: 'user', content: [] }] }, 400, 'invalid_request_error'],
      [
        { messages: [{ role: 'user', content: [{ type: 'image' }] }] },
        400,
        'invalid_request_error',
      ],
      [{ tools: [{ name: 'x' }] }, 400, 'invalid_request_error'],
      [
        { tools: [{ type: 'web_search_20250305', name: 'x', input_schema: {} }] },
        400,
        'invalid_request_error',
      ],
      [{ model: 'nope' }, 404, 'not_found_error'],
    ] as const) {
      const reply = await messages(fields)
      expect([fields, reply.status, reply.json.type, reply.json.error.type]).toEqual([
        fields,
        status,
        'error',
        type,
      ])
    }
  })

  it.each<[Record<string, unknown>, string]>([
    [{ max_tokens: undefined }, '`max_tokens`: is missing'],
    [{ mcp_servers: [{ name: 'a' }] }, 'MCP servers are not supported'],
    [
      {
        messages: [
          {
            role: 'user',
            content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'image' }] }],
          },
        ],
      },
      'content block type "image" is not supported',
    ],
  ])('%j - the error says what is wrong, and has the id of the request', async (fields, why) => {
    const { status, json, headers } = await start().messages(fields)
    expect([status, json.type, json.request_id]).toEqual([400, 'error', headers['request-id']])
    expect(json.error.message).toContain(why)
  })

  it('an error in mid-stream - is an error event and the end of the stream', async () => {
    const { messages } = start({ script: (run) => void run.says('a').fails('backend.unknown') })
    const reply = await messages({ stream: true })
    expect(reply.events.at(-1)).toMatchObject({ type: 'error', error: { type: 'api_error' } })
    expect(reply.ended).toBe(true)
  })

  it('count_tokens - gives the same number as the message uses', async () => {
    const { it_, messages } = start()
    const fields = { system: 'be brief', tools: TOOLS }
    const whole = await messages(fields)
    const count = await it_.post('/v1/messages/count_tokens', {
      model: 'storyteller',
      messages: [{ role: 'user', content: 'hi' }],
      ...fields,
    })
    expect(count.json.input_tokens).toBe(whole.json.usage.input_tokens)
  })
})

describe('requests of coding agents', () => {
  it('fields that do not change the result - are accepted', async () => {
    const { it_, messages } = start()
    const { status } = await messages({
      betas: ['context-management-2025-06-27'],
      cache_control: { type: 'ephemeral' },
      context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] },
      metadata: { user_id: 'u' },
      output_config: { effort: 'max' },
      mcp_servers: [],
      diagnostics: { previous_message_id: 'msg_1' },
      fallbacks: [{ model: 'other' }],
      fallback_credit_token: 'x',
      billing_policy: { type: 'organization' },
    })
    expect(status).toBe(200)
    expect(it_.requests).toHaveLength(1)
    for (const refused of [
      { mcp_servers: [{ url: 'http://x' }] },
      { compaction: { type: 'enabled' } },
      { container: 'c' },
    ]) {
      expect([refused, (await messages(refused)).status]).toEqual([refused, 400])
    }
  })

  it('output_config.format - holds the output to its schema', async () => {
    const { it_, messages } = start({ script: (run) => void run.says('{}').ends('eos') })
    const schema = { type: 'object', properties: {}, additionalProperties: false }
    await messages({ output_config: { format: { type: 'json_schema', schema } } })
    expect(it_.requests[0]?.sampling.guided).toMatchObject({ kind: 'json-schema', schema })
  })

  it('a last message of the assistant - is continued, whatever it contains', async () => {
    const { it_, messages } = start()
    const text = async (prefill: string) => {
      await messages({
        messages: [
          { role: 'user', content: 'JSON?' },
          { role: 'assistant', content: prefill },
        ],
      })
      const ids = it_.requests.at(-1)?.tokenIds ?? []
      return storyteller().tokenizer.decode(ids, { skipSpecialTokens: false })
    }
    expect(await text('{"name": "Zed",')).toMatch(/\{"name": "Zed",$/)
    expect(await text('<|im_end|>')).toMatch(/<\|im_end\|>$/)
  })
})
