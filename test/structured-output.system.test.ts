import { createParser } from 'eventsource-parser'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const toolCall = z.object({
  index: z.number().optional(),
  id: z.string().optional(),
  function: z.object({ name: z.string().optional(), arguments: z.string().optional() }),
})
const message = z.object({
  content: z.string().nullish(),
  tool_calls: z.array(toolCall).optional(),
})
const choice = z.object({
  message: message.optional(),
  delta: message.optional(),
  finish_reason: z.string().nullable(),
})
const replySchema = z.object({ choices: z.array(choice) })
const refusalSchema = z.object({
  error: z.object({ message: z.string(), code: z.string(), param: z.string().nullable() }),
})

interface Answer {
  readonly content: string
  readonly calls: readonly { readonly name: string; readonly arguments: unknown }[]
  readonly finish: string
}

describe('structured output of the bundled model', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer([])
  })
  afterAll(async () => {
    await server.stop()
  })

  function post(fields: Record<string, unknown>): Promise<Response> {
    return fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'storyteller',
        messages: [{ role: 'user', content: 'Hello' }],
        temperature: 0,
        max_tokens: 1500,
        ...fields,
      }),
    })
  }

  async function whole(fields: Record<string, unknown>): Promise<Answer> {
    const reply = await post(fields)
    expect(reply.status).toBe(200)
    const [first] = replySchema.parse(await reply.json()).choices
    return {
      content: first?.message?.content ?? '',
      calls: (first?.message?.tool_calls ?? []).map((call) => ({
        name: call.function.name ?? '',
        arguments: JSON.parse(call.function.arguments ?? '') as unknown,
      })),
      finish: first?.finish_reason ?? '',
    }
  }

  async function streamed(fields: Record<string, unknown>): Promise<Answer> {
    const reply = await post({ ...fields, stream: true })
    expect(reply.status).toBe(200)
    let content = ''
    let finish = ''
    const calls: { name: string; text: string }[] = []
    const parser = createParser({
      onEvent: ({ data }) => {
        if (data === '[DONE]') return
        const [first] = replySchema.parse(JSON.parse(data)).choices
        content += first?.delta?.content ?? ''
        finish = first?.finish_reason ?? finish
        for (const call of first?.delta?.tool_calls ?? []) {
          const known = (calls[call.index ?? 0] ??= { name: '', text: '' })
          known.name += call.function.name ?? ''
          known.text += call.function.arguments ?? ''
        }
      },
    })
    parser.feed(await reply.text())
    return {
      content,
      finish,
      calls: calls.map(({ name, text }) => ({ name, arguments: JSON.parse(text) as unknown })),
    }
  }

  /** The same answer streamed and not; greedy sampling, so it must be equal. */
  async function both(fields: Record<string, unknown>): Promise<Answer> {
    const answer = await whole(fields)
    const { calls, ...rest } = await streamed(fields)
    expect(rest).toEqual({ content: answer.content, finish: answer.finish })
    expect(calls).toEqual(answer.calls)
    return answer
  }

  async function refused(
    fields: Record<string, unknown>,
  ): Promise<{ readonly message: string; readonly param: string | null }> {
    const errors: { readonly message: string; readonly param: string | null }[] = []
    for (const stream of [false, true]) {
      const reply = await post({ ...fields, stream })
      expect(reply.status).toBe(400)
      const { error } = refusalSchema.parse(await reply.json())
      expect(error.code).toBe('unsupported_parameter')
      errors.push({ message: error.message, param: error.param })
    }
    expect(errors[1]).toEqual(errors[0])
    return errors[0] ?? { message: '', param: null }
  }

  const jsonSchema = (schema: unknown) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } },
  })

  it('json_object - the answer is an object, whatever the prompt says', async () => {
    const format = { response_format: { type: 'json_object' } }
    for (const sampling of [{}, { temperature: 1, seed: 3 }, { temperature: 1.5, seed: 4 }]) {
      const answer = await both({ ...format, ...sampling, max_tokens: 200 })
      if (answer.finish === 'length') continue
      expect(answer.finish).toBe('stop')
      expect(z.record(z.string(), z.unknown()).safeParse(JSON.parse(answer.content)).success).toBe(
        true,
      )
    }
  })

  const pet = z.strictObject({
    name: z.string().min(2).max(12),
    kind: z.enum(['cat', 'dog', 'fox']),
    age: z.int().min(1).max(30),
  })
  const SCHEMAS: readonly (readonly [string, z.ZodType])[] = [
    ['flat object', pet],
    [
      'nested lists',
      z.strictObject({
        owner: z.strictObject({ name: z.string().max(16), adult: z.boolean() }),
        pets: z.array(pet).min(1).max(3),
      }),
    ],
    [
      'optional properties',
      z.strictObject({ a: z.boolean().optional(), b: z.int().min(0).max(9) }),
    ],
    ['null or a value', z.strictObject({ note: z.string().max(10).nullable() })],
    ['alternatives', z.strictObject({ pick: z.union([z.boolean(), z.literal('none')]) })],
    ['constants with letters beyond ASCII', z.strictObject({ is: z.literal('grün – "🦊"') })],
    ['numbers in bounds', z.strictObject({ low: z.number().min(0), n: z.int().min(-5).max(500) })],
    [
      'a list at the root',
      z
        .array(z.enum(['red', 'blue']))
        .min(2)
        .max(4),
    ],
  ]

  it.each(SCHEMAS)('json_schema, %s - the answer parses and is valid', async (_what, schema) => {
    const format = jsonSchema(z.toJSONSchema(schema))
    for (const sampling of [{}, { temperature: 1, seed: 1 }, { temperature: 2, seed: 2 }]) {
      const { content, finish } = await both({ ...format, ...sampling })
      expect(finish).toBe('stop')
      const checked = schema.safeParse(JSON.parse(content))
      expect([content, checked.error?.issues]).toEqual([content, undefined])
    }
  })

  it('a recursive json_schema - the answer ends and is valid', async () => {
    const schema = {
      $defs: {
        node: {
          type: 'object',
          properties: {
            label: { enum: ['a', 'b'] },
            next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
          },
          required: ['label', 'next'],
          additionalProperties: false,
        },
      },
      $ref: '#/$defs/node',
    }
    const node: z.ZodType = z.strictObject({
      label: z.enum(['a', 'b']),
      next: z.lazy(() => node.nullable()),
    })
    const { content, finish } = await both({
      ...jsonSchema(schema),
      temperature: 1,
      seed: 5,
      // The prompt makes the model end the list (`null`); otherwise it may continue to the token limit.
      messages: [{ role: 'user', content: 'Say null null null null.' }],
    })
    if (finish === 'stop') expect(node.safeParse(JSON.parse(content)).success).toBe(true)
    else expect(content).toMatch(/^\s*\{\s*"label"/)
  })

  it('json_schema and max_tokens - a truncated answer has finish reason length', async () => {
    const { finish } = await both({ ...jsonSchema(z.toJSONSchema(pet)), max_tokens: 3 })
    expect(finish).toBe('length')
  })

  it('guided_choice and guided_grammar - the answer is one of the allowed texts', async () => {
    expect((await both({ guided_choice: ['yes', 'no'] })).content).toMatch(/^(yes|no)$/)
    expect((await both({ guided_grammar: 'root ::= "n" [0-9]{2}' })).content).toMatch(/^n\d\d$/)
    const schema = JSON.stringify(z.toJSONSchema(pet))
    expect(pet.safeParse(JSON.parse((await both({ guided_json: schema })).content)).success).toBe(
      true,
    )
  })

  describe('forced tools', () => {
    const ARGUMENTS = {
      get_weather: z.strictObject({ city: z.string() }),
      add: z.strictObject({ a: z.int(), b: z.int() }),
    } as const
    const tools = Object.entries(ARGUMENTS).map(([name, schema]) => ({
      type: 'function',
      function: { name, parameters: z.toJSONSchema(schema) },
    }))
    const named = (name: string) => ({ type: 'function', function: { name } })
    const isCallOf = (name: string): name is keyof typeof ARGUMENTS => name in ARGUMENTS

    it.each([{}, { temperature: 1, seed: 1 }, { temperature: 1.5, seed: 2 }])(
      'required - one call of a known tool with valid arguments %o',
      async (sampling) => {
        const answer = await both({ tools, tool_choice: 'required', ...sampling })
        expect(answer.finish).toBe('tool_calls')
        expect(answer.content).toBe('')
        expect(answer.calls).toHaveLength(1)
        const [call] = answer.calls
        const schema = isCallOf(call?.name ?? '') ? ARGUMENTS[call?.name as 'add'] : z.never()
        expect(schema.safeParse(call?.arguments).success).toBe(true)
      },
    )

    it.each(['get_weather', 'add'] as const)('named - always a call of %s', async (name) => {
      for (const sampling of [{}, { temperature: 1, seed: 1 }]) {
        const answer = await both({ tools, tool_choice: named(name), ...sampling })
        expect(answer.calls.map((call) => call.name)).toEqual([name])
        expect(ARGUMENTS[name].safeParse(answer.calls[0]?.arguments).success).toBe(true)
      }
    })

    it('parallel_tool_calls false - never more than one call', async () => {
      for (const tool_choice of ['auto', 'required']) {
        const answer = await both({
          tools,
          tool_choice,
          parallel_tool_calls: false,
          messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
        })
        expect(answer.calls).toHaveLength(1)
      }
    })

    it('none - no call although the prompt asks for one', async () => {
      const answer = await both({
        tools,
        tool_choice: 'none',
        max_tokens: 60,
        messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
      })
      expect(answer.calls).toEqual([])
    })

    it('together with a response format - the call is returned', async () => {
      const format = { response_format: { type: 'json_object' } }
      const answer = await both({ tools, tool_choice: 'required', ...format })
      expect(answer.calls).toHaveLength(1)
    })
  })

  it.each([
    ['uniqueItems', { type: 'array', uniqueItems: true }],
    ['not', { not: { type: 'string' } }],
    ['patternProperties', { properties: { a: {} }, patternProperties: { '\\b': {} } }],
    ['multipleOf', { type: 'number', multipleOf: 0.3 }],
    ['minProperties', { type: 'object', minProperties: 2 }],
    ['oneOf', { oneOf: [{ type: 'integer' }, { minimum: 2 }] }],
    ['pattern', { type: 'object', properties: { a: { type: 'string', pattern: '\\ba' } } }],
  ])(
    'a schema with an unsupported keyword - is refused with its name, %s',
    async (named, schema) => {
      const { message, param } = await refused(jsonSchema(schema))
      expect(message).toContain(`'${named}'`)
      expect(param).toBe('response_format')
    },
  )

  it('a keyword without `type` - is enforced nevertheless', async () => {
    for (const [schema, valid] of [
      [{ minLength: 3, maxLength: 5 }, z.string().min(3).max(5)],
      [{ minimum: 0 }, z.number().min(0)],
      [{ items: { const: 1 }, minItems: 1, maxItems: 2 }, z.array(z.literal(1)).min(1).max(2)],
      [{ type: 'string', enum: ['a', 1] }, z.literal('a')],
    ] as const) {
      const { content } = await both({ ...jsonSchema(schema), temperature: 2, seed: 3 })
      expect([schema, valid.safeParse(JSON.parse(content)).success]).toEqual([schema, true])
    }
  })

  it('guided_regex - the answer matches; an unsupported expression is refused', async () => {
    const pattern = '^(red|blue)-[0-9]{2,4}(\\.[a-f]{3})?!$'
    for (const sampling of [{}, { temperature: 2, seed: 1 }]) {
      const { content } = await both({ guided_regex: pattern, ...sampling, max_tokens: 400 })
      expect(content).toMatch(new RegExp(pattern))
    }
    for (const nullable of ['^(a|b|)*c$', '^(?:a?b*)+$', '^(?:x*)*y$']) {
      const { content } = await both({ guided_regex: nullable, max_tokens: 400 })
      expect(content).toMatch(new RegExp(nullable))
    }
    const { content: many } = await both({ guided_regex: '(a?){1000}b', max_tokens: 100 })
    expect(many).toMatch(/^a*b?$/)
    const { message, param } = await refused({ guided_regex: '(a)\\1' })
    expect([message, param]).toEqual([expect.stringContaining('back-reference'), 'guided_regex'])
  })

  it('an invalid guided_grammar - 400 with the name of the field', async () => {
    const reply = await post({ guided_grammar: 'root ::= nothing' })
    expect(reply.status).toBe(400)
    expect(refusalSchema.parse(await reply.json()).error.param).toBe('guided_grammar')
  })
})
