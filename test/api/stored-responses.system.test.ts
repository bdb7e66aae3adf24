import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BatonsInTurn } from '../in-turn.ts'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { HAS_SQLITE, clientOf } from './openai-of.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

const SIM = ['--engine', 'sim', '--sim-speedup', '0']

describe('stored responses with the openai client', () => {
  let server: RunningServer
  let client: OpenAI
  beforeAll(async () => {
    server = await startServer(SIM)
    client = clientOf(server)
  })
  afterAll(async () => {
    await server.stop()
  })

  const ask = (fields: object) => ({
    model: 'storyteller',
    max_output_tokens: 8,
    stream: false as const,
    ...fields,
  })
  const create = (fields: object) => client.responses.create(ask(fields))

  it('previous_response_id - the model gets the earlier conversation', async () => {
    const first = await create({ input: 'My word is lamp.' })
    expect(first).toMatchObject({ store: true })
    const second = await create({ input: 'What is it?', previous_response_id: first.id })
    expect(second.previous_response_id).toBe(first.id)
    const whole = await create({
      input: [
        { role: 'user', content: 'My word is lamp.' },
        ...first.output,
        { role: 'user', content: 'What is it?' },
      ],
    })
    expect(second.usage?.input_tokens).toBe(whole.usage?.input_tokens)
    expect(second.output_text).toBe(whole.output_text)
    const third = await create({ input: 'And now?', previous_response_id: second.id })
    expect(third.usage?.input_tokens).toBeGreaterThan(second.usage?.input_tokens ?? 0)
  })

  it('item references - are replaced by the stored items and counted like them', async () => {
    const first = await create({ input: 'My word is lamp.' })
    const [said] = first.output
    const input = (item: object) => [
      { role: 'user', content: 'My word is lamp.' },
      item,
      { role: 'user', content: 'What is it?' },
    ]
    const reference = { type: 'item_reference', id: said?.id }
    const named = await create({ input: input(reference) })
    const whole = await create({ input: input(said ?? {}) })
    expect(named.output_text).toBe(whole.output_text)
    const counted = await client.responses.inputTokens.count({
      model: 'storyteller',
      input: input(reference) as OpenAI.Responses.ResponseInputItem[],
    })
    expect(counted.input_tokens).toBe(named.usage?.input_tokens)
    const behind = { input: 'What is it?', model: 'storyteller', previous_response_id: first.id }
    expect((await client.responses.inputTokens.count(behind)).input_tokens).toBe(
      named.usage?.input_tokens,
    )
    const items = client.responses.inputItems.list(named.id, { order: 'asc' })
    expect((await items).data[1]).toMatchObject({ type: 'message', role: 'assistant' })
    for (const id of ['msg_nobody_1', 'item_1', 'x', `${said?.id}0`]) {
      const asked = create({ input: input({ type: 'item_reference', id }) })
      await expect(asked).rejects.toMatchObject({ status: 404 })
    }
    const odd = create({ input: input({ type: 'mcp_list_tools', id: 'x' }) })
    await expect(odd).rejects.toMatchObject({ status: 400, param: 'input[1]' })
    await expect(odd).rejects.toThrow('must be a message, a reasoning, a function_call')
  })

  it('streamed responses - are stored as well, and tool calls continue', async () => {
    const tool = {
      type: 'function' as const,
      name: 'weather',
      strict: true,
      parameters: {
        type: 'object',
        properties: { city: { type: 'string', maxLength: 8 } },
        required: ['city'],
        additionalProperties: false,
      },
    }
    const asked = {
      model: 'storyteller',
      input: 'What is the weather?',
      tools: [tool],
      tool_choice: 'required' as const,
    }
    const stream = client.responses.stream(asked)
    const called = await stream.finalResponse()
    const [item] = called.output
    if (item?.type !== 'function_call') throw new Error('no call')
    const answer = await create({
      previous_response_id: called.id,
      input: [{ type: 'function_call_output', call_id: item.call_id, output: 'sunny' }],
    })
    expect(answer.status).toMatch(/completed|incomplete/)
    const unknown = { type: 'function_call_output', call_id: 'call_0', output: 'sunny' } as const
    await expect(
      create({ previous_response_id: called.id, input: [unknown] }),
    ).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('No tool call found for function call output'),
    })
    const items = await client.responses.inputItems.list(answer.id)
    expect(items.data.map(({ type }) => type)).toEqual([
      'message',
      'function_call',
      'function_call_output',
    ])
  })

  it('get, delete, cancel - work; store false keeps nothing', async () => {
    const kept = await create({ input: 'hello' })
    expect(await client.responses.retrieve(kept.id)).toMatchObject({
      id: kept.id,
      output: kept.output,
    })
    await expect(client.responses.cancel(kept.id)).rejects.toMatchObject({ status: 400 })
    await client.responses.delete(kept.id)
    await expect(client.responses.retrieve(kept.id)).rejects.toMatchObject({ status: 404 })
    await expect(client.responses.cancel(kept.id)).rejects.toMatchObject({ status: 404 })
    const lost = await create({ input: 'hello', store: false })
    expect(lost).toMatchObject({ store: false })
    await expect(client.responses.retrieve(lost.id)).rejects.toMatchObject({ status: 404 })
    await expect(create({ input: 'hello', previous_response_id: lost.id })).rejects.toMatchObject({
      status: 404,
    })
  })

  it('lists - are paged by limit, order and after, as the client uses them', async () => {
    const words = ['a', 'b', 'c', 'd', 'e']
    const { id } = await client.conversations.create({
      items: words.map((content) => ({ type: 'message', role: 'user', content })),
    })
    const textsOf = (items: readonly unknown[]) =>
      items.map((item) => (item as { content: string }).content)
    const first = await client.conversations.items.list(id, { limit: 2, order: 'asc' })
    expect([textsOf(first.data), first.has_more]).toEqual([['a', 'b'], true])
    const all: unknown[] = []
    for await (const item of client.conversations.items.list(id, { limit: 2, order: 'desc' })) {
      all.push(item)
    }
    expect(textsOf(all)).toEqual(words.toReversed())
    const { last_id: after } = first
    const rest = await client.conversations.items.list(id, { after, order: 'asc' })
    expect([textsOf(rest.data), rest.has_more]).toEqual([['c', 'd', 'e'], false])
    const wrong = client.conversations.items.list(id, { after: 'item_none' })
    await expect(wrong).rejects.toMatchObject({ status: 400, param: 'after' })
  })

  it('missing objects and unsupported operations - are refused with the right status', async () => {
    const kept = await client.responses.create({
      model: 'storyteller',
      input: 'hi',
      max_output_tokens: 2,
    })
    const streamed = client.responses.retrieve(kept.id, { stream: true })
    await expect(streamed).rejects.toMatchObject({ status: 400, param: 'stream' })
    const compacted = client.post('/responses/compact', { body: {} })
    await expect(compacted).rejects.toMatchObject({ status: 405 })
  })

  const pairs = (count: number) => Object.fromEntries([...Array(count).keys()].map((i) => [i, '']))
  it.each([
    ['17 pairs', pairs(17)],
    ['a key of 65 characters', { ['k'.repeat(65)]: 'v' }],
    ['a text of 513 characters', { k: 'v'.repeat(513) }],
    ['a number', { k: 1 }],
    ['a list', ['v']],
  ])('metadata: %s - is 400 for every stored object', async (_name, metadata) => {
    const { id } = await client.conversations.create({ metadata: pairs(16) as never })
    const bodies = {
      '/conversations': {},
      [`/conversations/${id}`]: {},
      '/responses': { model: 'storyteller', input: 'hi' },
    }
    for (const [path, body] of Object.entries(bodies)) {
      const asked = client.post(path, { body: { ...body, metadata } })
      await expect(asked, path).rejects.toMatchObject({
        status: 400,
        param: expect.stringMatching(/^metadata/) as string,
      })
    }
  })

  it('conversations - are created, extended by responses, listed, changed and deleted', async () => {
    const conversation = await client.conversations.create({
      items: [{ role: 'user', content: 'My word is lamp.' }],
      metadata: { topic: 'words' },
    })
    const first = await create({ input: 'What is it?', conversation: conversation.id })
    expect(first.conversation?.id).toBe(conversation.id)
    const second = await create({ input: 'Sure?', conversation: { id: conversation.id } })
    expect(second.usage?.input_tokens).toBeGreaterThan(first.usage?.input_tokens ?? 0)
    const items = await client.conversations.items.list(conversation.id)
    expect(items.data).toHaveLength(5)
    await client.conversations.items.create(conversation.id, {
      items: [{ role: 'user', content: 'One more' }],
    })
    const [item] = items.data
    await client.conversations.items.delete(item?.id ?? '', { conversation_id: conversation.id })
    expect((await client.conversations.items.list(conversation.id)).data).toHaveLength(5)
    const changed = await client.conversations.update(conversation.id, { metadata: { a: 'b' } })
    expect(changed.metadata).toEqual({ a: 'b' })
    await client.conversations.delete(conversation.id)
    await expect(client.conversations.retrieve(conversation.id)).rejects.toMatchObject({
      status: 404,
    })
    await expect(
      create({ input: 'x', conversation: 'c', previous_response_id: 'r' }),
    ).rejects.toMatchObject({ status: 400 })
  })
})

describe('storage of responses', () => {
  it('--state off - requests that need storage get 501 with the name of the option', async () => {
    const server = await startServer([...SIM, '--state', 'off'])
    try {
      const client = clientOf(server)
      const made = await client.responses.create({ model: 'storyteller', input: 'hi' })
      expect(made).toMatchObject({ store: false })
      await expect(client.responses.retrieve(made.id)).rejects.toMatchObject({ status: 501 })
      await expect(
        client.responses.create({ model: 'storyteller', input: 'hi', previous_response_id: 'x' }),
      ).rejects.toMatchObject({ status: 501 })
    } finally {
      await server.stop()
    }
  })

  it('several frontends - store nothing unless they share a database', async () => {
    const server = await startServer([...SIM, '--frontends', '2'])
    try {
      const made = await clientOf(server).responses.create({ model: 'storyteller', input: 'hi' })
      expect(made).toMatchObject({ store: false })
    } finally {
      await server.stop()
    }
  })

  it('--state in memory for several frontends, or of an unknown kind - is refused at startup', async () => {
    for (const args of [
      ['--state', 'memory', '--frontends', '2'],
      ['--state', 'redis://x'],
      ...(HAS_SQLITE ? [] : [['--state', 'sqlite:x.db']]),
    ]) {
      const { exitCode, printed } = await batons.run(['serve', '--engine', 'sim', ...args])
      expect([exitCode, /--state (is invalid|memory and --frontends)/.test(printed)]).toEqual([
        2,
        true,
      ])
    }
  })

  it.runIf(HAS_SQLITE)('--state sqlite: - survives a restart', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-state-'))
    const args = [...SIM, '--state', `sqlite:${join(folder, 'state.db')}`]
    try {
      const first = await startServer(args)
      const made = await clientOf(first).responses.create({ model: 'storyteller', input: 'hi' })
      await first.stop()
      const second = await startServer(args)
      try {
        const client = clientOf(second)
        expect((await client.responses.retrieve(made.id)).output_text).toBe(made.output_text)
        await client.responses.delete(made.id)
        await expect(client.responses.retrieve(made.id)).rejects.toMatchObject({ status: 404 })
      } finally {
        await second.stop()
      }
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
