import Anthropic from '@anthropic-ai/sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { Output, generateText, jsonSchema, stepCountIs, tool } from 'ai'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'

const WEATHER = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 12 } },
  required: ['city'],
  additionalProperties: false,
} as const
const tools = [{ type: 'function' as const, function: { name: 'weather', parameters: WEATHER } }]
const ask = (content: string, fields: object = {}) => ({
  model: 'storyteller',
  messages: [{ role: 'user' as const, content }],
  ...fields,
})

describe('structured output of the simulated engine', () => {
  let server: RunningServer
  let openai: OpenAI
  beforeAll(async () => {
    const turns = { output_tokens: 40, tool_calls: 0.6 }
    const sim = ['--sim-speedup', '0', '--sim-args', JSON.stringify({ turns })]
    server = await startServer(['--engine', 'sim', ...sim])
    openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(async () => {
    await server.stop()
  })

  it('response_format and guided_* - the output is valid and repeatable', async () => {
    const shapes: readonly (readonly [object, (text: string) => boolean])[] = [
      [
        { response_format: { type: 'json_object' } },
        (text) => typeof JSON.parse(text) === 'object',
      ],
      [{ guided_choice: ['yes', 'no'] }, (text) => /^(yes|no)$/.test(text)],
      [{ guided_regex: '[a-f]{3}-\\d+' }, (text) => /^[a-f]{3}-\d+$/.test(text)],
      [{ guided_grammar: 'root ::= "n" [0-9]{2}' }, (text) => /^n\d\d$/.test(text)],
      [
        { guided_json: WEATHER },
        (text) => typeof (JSON.parse(text) as { city: string }).city === 'string',
      ],
    ]
    for (const [fields, isRight] of shapes) {
      for (const prompt of ['a', 'b', 'c', 'd']) {
        const request = ask(prompt, { ...fields, max_tokens: 400 })
        const { choices } = await openai.chat.completions.create(request)
        const text = choices[0]?.message.content ?? ''
        expect([text, choices[0]?.finish_reason, isRight(text)]).toEqual([text, 'stop', true])
        const stream = openai.chat.completions.stream(request)
        expect(await stream.finalContent()).toBe(text)
      }
    }
  })

  it("zod's formats in strict mode - what the client parses is valid", async () => {
    const formats = {
      email: z.email(),
      id: z.uuid(),
      day: z.iso.date(),
      at: z.iso.datetime(),
      span: z.iso.duration(),
      address: z.ipv4(),
      link: z.url(),
      password: z.string().regex(/^(?=.*[A-Z])(?=.*\d)(?!.*\s).{6,12}$/),
      mark: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('a'), size: z.int().min(3).max(5) }),
        z.object({ kind: z.literal('b'), isOn: z.boolean() }),
      ]),
    }
    for (const [name, type] of Object.entries(formats)) {
      const response_format = zodResponseFormat(z.object({ value: type }), name)
      expect(response_format.json_schema.strict).toBe(true)
      for (const seed of [1, 2, 3]) {
        const reply = await openai.chat.completions.parse(ask('x', { seed, response_format }))
        expect([name, reply.choices[0]?.message.parsed]).toEqual([
          name,
          { value: expect.anything() },
        ])
      }
    }
  })

  it('tools - a forced call has valid arguments; auto together with a schema calls or answers', async () => {
    for (const prompt of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) {
      const { choices } = await openai.chat.completions.create(
        ask(prompt, { tools, tool_choice: 'required' }),
      )
      const [call] = choices[0]?.message.tool_calls ?? []
      if (call?.type !== 'function') throw new Error('no call')
      expect(Object.keys(JSON.parse(call.function.arguments) as object)).toEqual(['city'])
    }
    const finishes = new Set<string>()
    for (let nth = 0; nth < 24; nth++) {
      const format = { type: 'json_schema', json_schema: { name: 'a', schema: WEATHER } }
      const { choices } = await openai.chat.completions.create(
        ask(`question ${nth}`, { tools, response_format: format }),
      )
      finishes.add(choices[0]?.finish_reason ?? '')
      if (choices[0]?.finish_reason === 'stop') JSON.parse(choices[0].message.content ?? '')
    }
    expect([...finishes].toSorted()).toEqual(['stop', 'tool_calls'])
  })

  it('an agent of the AI SDK - calls until it is no longer forced to, then returns its object', async () => {
    let calls = 0
    const model = createOpenAICompatible({
      name: 'baton',
      baseURL: `${server.url}/v1`,
      supportsStructuredOutputs: true,
    })('storyteller')
    const result = await generateText({
      model,
      prompt: 'What is the weather?',
      stopWhen: stepCountIs(3),
      output: Output.object({ schema: jsonSchema<{ city: string }>(WEATHER) }),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 2 ? 'required' : 'none' }),
      tools: {
        weather: tool({
          inputSchema: jsonSchema<{ city: string }>(WEATHER),
          execute: () => `sunny ${++calls}`,
        }),
      },
    })
    expect([calls, typeof result.output.city]).toEqual([2, 'string'])
  })

  it('without a schema - turns end by themselves, and sometimes call a tool if allowed', async () => {
    const kinds = new Set<string>()
    for (let nth = 0; nth < 12; nth++) {
      const { choices } = await openai.chat.completions.create(ask(`free ${nth}`, { tools }))
      const [choice] = choices
      kinds.add(choice?.finish_reason ?? '')
      const [call] = choice?.message.tool_calls ?? []
      if (choice?.finish_reason === 'stop') expect(choice.message.content).toMatch(/\w/)
      else if (call?.type === 'function')
        expect(Object.keys(JSON.parse(call.function.arguments) as object)).toEqual(['city'])
    }
    expect([...kinds].toSorted()).toEqual(['stop', 'tool_calls'])
    const plain = await openai.chat.completions.create(ask('free', { tool_choice: 'none', tools }))
    expect(plain.choices[0]?.finish_reason).toBe('stop')
  })

  it('an agent that decides by itself - calls until it answers, in each API', async () => {
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 })
    const input = WEATHER as unknown as Anthropic.Tool.InputSchema
    let [calls, answers] = [0, 0]
    for (let nth = 0; nth < 4; nth++) {
      const messages: Anthropic.MessageParam[] = [{ role: 'user', content: `weather ${nth}?` }]
      const request = { model: 'storyteller', max_tokens: 1000, messages }
      for (let turn = 0; turn < 20; turn++) {
        const reply = await anthropic.messages.create({
          ...request,
          tools: [{ name: 'weather', input_schema: input }],
        })
        const uses = reply.content.filter((block) => block.type === 'tool_use')
        if (uses.length === 0) {
          expect(reply.stop_reason).toBe('end_turn')
          answers += 1
          break
        }
        calls += uses.length
        const results = uses.map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id }))
        messages.push({ role: 'assistant', content: reply.content })
        messages.push({ role: 'user', content: results })
      }
    }
    expect([answers, calls > 0]).toEqual([4, true])
    const runner = openai.chat.completions.runTools({
      model: 'storyteller',
      messages: [{ role: 'user', content: 'And tomorrow?' }],
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'How it is',
            parameters: { ...WEATHER, required: ['city'] },
            function: () => 'sunny',
          },
        },
      ],
    })
    expect(await runner.finalContent()).toMatch(/\w/)
    const outputs = new Set<string>()
    for (let nth = 0; nth < 12; nth++) {
      const { status, output } = await openai.responses.create({
        model: 'storyteller',
        input: `weather ${nth}`,
        tools: [{ type: 'function', name: 'weather', parameters: WEATHER, strict: true }],
      })
      expect(status).toBe('completed')
      for (const { type } of output) outputs.add(type)
    }
    expect([...outputs].toSorted()).toEqual(['function_call', 'message'])
  })

  it('logit_bias - a token with 100 is always chosen, one with -100 never', async () => {
    const first = await openai.chat.completions.create(ask('x', { max_tokens: 4 }))
    const reply = await fetch(`${server.url}/tokenize`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: ' robot', add_special_tokens: false }),
    })
    const { tokens } = (await reply.json()) as { tokens: number[] }
    const bias = Object.fromEntries(tokens.slice(-1).map((id) => [id, 100]))
    const biased = await openai.chat.completions.create(
      ask('x', { max_tokens: 4, logit_bias: bias }),
    )
    const texts = biased.choices[0]?.message.content ?? ''
    expect(texts.slice(0, texts.length / 4).repeat(4)).toBe(texts)
    expect(texts).not.toBe(first.choices[0]?.message.content)
  })
})
