import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { clientOf } from './openai-of.ts'

type Chat = OpenAI.ChatCompletionCreateParamsNonStreaming

const RUN = {
  type: 'custom' as const,
  custom: {
    name: 'run_code',
    description: 'Runs a line of code.',
    format: {
      type: 'grammar' as const,
      grammar: { syntax: 'regex' as const, definition: 'print\\("[a-z]{3,8}"\\)' },
    },
  },
}
const ADD = {
  type: 'function' as const,
  function: { name: 'add', parameters: { type: 'object', properties: { a: { type: 'integer' } } } },
}

describe.each([
  ['the shipped model', []],
  ['the simulator', ['--engine', 'sim']],
])('custom tools in chats and log-probabilities in responses, %s', (_what, args) => {
  let server: RunningServer
  let client: OpenAI
  let model: string
  beforeAll(async () => {
    server = await startServer([...args, '--in-process', '--aggregated', '1'])
    client = clientOf(server)
    model = (await client.models.list()).data[0]?.id ?? ''
  })
  afterAll(async () => {
    await server.stop()
  })

  const chat = (fields: Partial<Chat> = {}): Chat => ({
    model,
    messages: [{ role: 'user', content: 'Please say hello.' }],
    tools: [RUN, ADD],
    tool_choice: { type: 'custom', custom: { name: 'run_code' } },
    temperature: 0,
    max_tokens: 120,
    ...fields,
  })

  it('a forced custom tool - its input is text that matches its pattern', async () => {
    const { choices } = await client.chat.completions.create(chat())
    expect(choices[0]?.finish_reason).toBe('tool_calls')
    const [call] = choices[0]?.message.tool_calls ?? []
    if (call?.type !== 'custom') throw new Error('no custom call')
    expect(call.custom.name).toBe('run_code')
    expect(call.custom.input).toMatch(/^print\("[a-z]{3,8}"\)$/)
    const allowed = await client.chat.completions.create(
      chat({
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: {
            mode: 'required',
            tools: [{ type: 'custom', custom: { name: 'run_code' } }],
          },
        },
      }),
    )
    expect(allowed.choices[0]?.message.tool_calls?.[0]?.type).toBe('custom')
  })

  it('streamed - the same call in pieces', async () => {
    const whole = await client.chat.completions.create(chat())
    const pieces: unknown[] = []
    const stream = await client.chat.completions.create({ ...chat(), stream: true })
    for await (const { choices } of stream) pieces.push(...(choices[0]?.delta.tool_calls ?? []))
    const deltas = pieces as {
      id?: string
      type?: string
      custom: { name?: string; input: string }
    }[]
    expect(deltas[0]).toMatchObject({ type: 'custom', custom: { name: 'run_code', input: '' } })
    const [call] = whole.choices[0]?.message.tool_calls ?? []
    if (call?.type !== 'custom') throw new Error('no custom call')
    expect(deltas.map(({ custom }) => custom.input).join('')).toBe(call.custom.input)
  })

  it('an earlier call and its result - are accepted in the messages', async () => {
    const messages: Chat['messages'] = [
      { role: 'user', content: 'Please say hello.' },
      {
        role: 'assistant',
        tool_calls: [
          { id: 'c1', type: 'custom', custom: { name: 'run_code', input: 'print("hello")' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'hello' },
    ]
    const reply = await client.chat.completions.create(
      chat({ messages, tool_choice: 'none', max_tokens: 4 }),
    )
    expect(reply.choices).toHaveLength(1)
  })

  it('a function tool next to a custom tool - stays a function', async () => {
    const forced = chat({ tool_choice: { type: 'function', function: { name: 'add' } } })
    const { choices } = await client.chat.completions.create(forced)
    expect(choices[0]?.message.tool_calls?.[0]?.type).toBe('function')
  })

  it.each([
    ['an unknown name', { tool_choice: { type: 'custom', custom: { name: 'x' } } }, 'tool_choice'],
    ['no name', { tools: [{ type: 'custom', custom: {} }] }, 'tools[0].custom.name'],
    ['another type', { tools: [{ type: 'odd' }] }, 'tools[0].type'],
  ])('%s - is refused with the name of the field', async (_name, fields, param) => {
    const refused = client.chat.completions.create({ ...chat(), ...(fields as Partial<Chat>) })
    await expect(refused).rejects.toMatchObject({ status: 400, param })
  })

  it('log-probabilities of a response - one per token, the same streamed and not', async () => {
    const asked = {
      model,
      input: 'Tell me about a fox.',
      temperature: 0,
      max_output_tokens: 12,
      top_logprobs: 2,
      include: ['message.output_text.logprobs' as const],
    }
    const whole = await client.responses.create(asked)
    const part = whole.output.flatMap((item) => (item.type === 'message' ? item.content : []))[0]
    if (part?.type !== 'output_text') throw new Error('no text')
    const { logprobs = [] } = part
    expect(logprobs.map(({ token }) => token).join('')).toBe(part.text)
    expect(
      logprobs.every(({ logprob, top_logprobs: top }) => logprob <= 0 && top.length >= 2),
    ).toBe(true)
    const streamed: string[] = []
    let final: unknown
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      if (event.type === 'response.output_text.delta') {
        streamed.push(...event.logprobs.map(({ token }) => token))
      }
      if (event.type === 'response.output_text.done') final = event.logprobs
    }
    expect(streamed).toEqual(logprobs.map(({ token }) => token))
    expect(final).toEqual(logprobs)
    const plain = await client.responses.create({ model, input: 'hi', max_output_tokens: 4 })
    expect(JSON.stringify(plain.output)).toContain('"logprobs":[]')
  })

  it('fields without effect on the result - are accepted', async () => {
    const response = await client.responses.create({
      model,
      input: 'hi',
      max_output_tokens: 4,
      ...({ max_tool_calls: 3 } as object),
      include: [
        'file_search_call.results',
        'web_search_call.action.sources',
        'reasoning.encrypted_content',
      ],
    })
    expect(response).toMatchObject({ max_tool_calls: 3 })
    const reply = await client.chat.completions.create({
      ...chat({ tool_choice: 'none', max_tokens: 4 }),
      ...({ guided_decoding_backend: 'xgrammar' } as object),
    })
    expect(reply.choices).toHaveLength(1)
  })
})
