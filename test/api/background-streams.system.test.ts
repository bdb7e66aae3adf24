import type OpenAI from 'openai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { until } from '../until.ts'
import { HAS_SQLITE, clientOf } from './openai-of.ts'

type Event = OpenAI.Responses.ResponseStreamEvent

const SIM = ['--engine', 'sim', '--in-process', '--aggregated', '1']
const ASKED = {
  model: 'storyteller',
  input: 'Say something',
  max_output_tokens: 60,
  background: true,
  stream: true as const,
}

async function allOf(stream: AsyncIterable<Event>): Promise<Event[]> {
  const events: Event[] = []
  for await (const event of stream) events.push(event)
  return events
}

/** Reads events up to the one with this number, and then disconnects. */
async function readUntil(stream: AsyncIterable<Event>, last: number): Promise<Event[]> {
  const events: Event[] = []
  for await (const event of stream) {
    events.push(event)
    if (event.sequence_number >= last) break
  }
  return events
}

function idOf([first]: readonly Event[]): string {
  return first?.type === 'response.created' ? first.response.id : ''
}

function textOf(events: readonly Event[]): string {
  return events.map((e) => (e.type === 'response.output_text.delta' ? e.delta : '')).join('')
}

const numbersOf = (events: readonly Event[]) => events.map((event) => event.sequence_number)
const from = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i)

describe('background streams with the openai client', () => {
  let server: RunningServer
  let client: OpenAI
  beforeAll(async () => {
    server = await startServer(SIM)
    client = clientOf(server)
  })
  afterAll(async () => {
    await server.stop()
  })

  const retrieved = (id: string, after: number) =>
    client.responses.retrieve(id, { stream: true, starting_after: after })

  it('stream - begins with queued, numbers its events, and the response is stored', async () => {
    const events = await allOf(await client.responses.create(ASKED))
    expect(events.slice(0, 3).map(({ type }) => type)).toEqual([
      'response.created',
      'response.queued',
      'response.in_progress',
    ])
    expect(numbersOf(events)).toEqual(from(0, events.length))
    const last = events.at(-1)
    if (last?.type !== 'response.completed' && last?.type !== 'response.incomplete')
      throw new Error(`ended with ${last?.type}`)
    expect(await client.responses.retrieve(idOf(events))).toMatchObject({
      status: last.response.status,
      background: true,
      output: last.response.output,
    })
    expect(textOf(events)).toBe(last.response.output_text ?? textOf(events))
  })

  it('a client that disconnects - does not end the response and continues after its last event', async () => {
    const seen = await readUntil(await client.responses.create(ASKED), 6)
    const id = idOf(seen)
    const rest = await allOf(await retrieved(id, 6))
    expect(numbersOf([...seen, ...rest])).toEqual(from(0, seen.length + rest.length))
    const kept = await client.responses.retrieve(id)
    expect(textOf([...seen, ...rest])).toBe(kept.output_text)
    expect(kept.usage?.output_tokens).toBeGreaterThan(1)
    // After the end as well, from each place.
    const all = await allOf(await client.responses.retrieve(id, { stream: true }))
    expect(all).toEqual([...seen, ...rest])
    for (const after of [0, 1, 7, all.length - 2, all.length - 1, all.length + 5]) {
      expect(await allOf(await retrieved(id, after))).toEqual(all.slice(after + 1))
    }
  })

  it("the client's own resume - returns the whole response", async () => {
    const seen = await readUntil(await client.responses.create(ASKED), 4)
    const resumed = client.responses.stream({ response_id: idOf(seen), starting_after: 4 })
    const numbers: number[] = []
    resumed.on('event', (event) => numbers.push(event.sequence_number))
    const final = await resumed.finalResponse()
    expect(numbers).toEqual(from(5, numbers.length))
    const kept = await client.responses.retrieve(idOf(seen))
    expect([final.status, final.output_text]).toEqual([kept.status, kept.output_text])
  })

  it('tool calls - are the same when they are read again', async () => {
    const tools = [
      {
        type: 'function' as const,
        name: 'weather',
        strict: true,
        parameters: {
          type: 'object',
          properties: { city: { type: 'string', maxLength: 8 } },
          required: ['city'],
          additionalProperties: false,
        },
      },
    ]
    const events = await allOf(
      await client.responses.create({ ...ASKED, tools, tool_choice: 'required' }),
    )
    const again = await allOf(await client.responses.retrieve(idOf(events), { stream: true }))
    expect(again).toEqual(events)
    expect(events.map(({ type }) => type)).toContain('response.function_call_arguments.done')
  })

  it('cancel and delete - end all streams of the response', async () => {
    const long = { ...ASKED, max_output_tokens: 3000 }
    const first = await client.responses.create(long)
    const second = await readUntil(await client.responses.create(long), 3)
    const rest = allOf(await retrieved(idOf(second), 3))
    await client.responses.cancel(idOf(second))
    expect((await rest).at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'cancelled' },
    })
    const reading = first[Symbol.asyncIterator]()
    const created = (await reading.next()).value as Event
    await client.responses.delete(idOf([created]))
    let last = created
    for (;;) {
      const { value, done } = await reading.next()
      if (done === true) break
      last = value
    }
    expect(last.type).toBe('response.failed')
    const gone = client.responses.retrieve(idOf([created]), { stream: true })
    await expect(gone).rejects.toMatchObject({ status: 404 })
  })

  it('a response that fails - ends with the reason', async () => {
    const events = await allOf(
      await client.responses.create({ ...ASKED, input: 'word '.repeat(5000) }),
    )
    expect(events.map(({ type }) => type)).toEqual([
      'response.created',
      'response.queued',
      'response.failed',
    ])
    expect(events[2]).toMatchObject({ response: { error: { code: 'invalid_prompt' } } })
    for (const [fields, status] of [
      [{ store: false }, 400],
      [{ model: 'nobody' }, 404],
      [{ temperature: 9 }, 400],
    ] as const) {
      await expect(client.responses.create({ ...ASKED, ...fields })).rejects.toMatchObject({
        status,
      })
    }
  })

  it('other responses and wrong queries - are refused', async () => {
    const plain = await client.responses.create({ ...ASKED, background: false, stream: false })
    const polled = await client.responses.create({ ...ASKED, stream: false })
    for (const { id } of [plain, polled]) {
      const asked = client.responses.retrieve(id, { stream: true })
      await expect(asked).rejects.toMatchObject({ status: 400, param: 'stream' })
    }
    const id = idOf(await readUntil(await client.responses.create(ASKED), 0))
    for (const [query, param] of [
      ['stream=yes', 'stream'],
      ['stream=true&starting_after=-1', 'starting_after'],
      ['stream=true&starting_after=1.5', 'starting_after'],
      ['starting_after=1', 'starting_after'],
    ] as const) {
      const asked = client.get(`/responses/${id}?${query}`)
      await expect(asked, query).rejects.toMatchObject({ status: 400, param })
    }
  })
})

describe.runIf(HAS_SQLITE)('background streams of several frontends', () => {
  it('another frontend - continues the stream, and tells when the first one dies', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-streams-'))
    const state = ['--state', `sqlite:${join(folder, 's.db')}`]
    const first = await startServer([...SIM, ...state])
    const second = await startServer([...SIM, ...state])
    try {
      const seen = await readUntil(await clientOf(first).responses.create(ASKED), 5)
      const other = clientOf(second).responses
      const query = { stream: true, starting_after: 5 } as const
      await until('the first events are stored', async () => {
        const reply = await fetch(`${second.url}/v1/responses/${idOf(seen)}?stream=true`)
        await reply.body?.cancel()
        return reply.ok
      })
      const rest = await allOf(await other.retrieve(idOf(seen), query))
      expect(numbersOf([...seen, ...rest])).toEqual(from(0, seen.length + rest.length))
      expect(textOf([...seen, ...rest])).toBe((await other.retrieve(idOf(seen))).output_text)

      const lost = await clientOf(first).responses.create({ ...ASKED, max_output_tokens: 3000 })
      const some = await readUntil(lost, 50)
      const waiting = allOf(await other.retrieve(idOf(some), query))
      first.process.kill('SIGKILL')
      expect((await waiting).at(-1)).toMatchObject({
        type: 'response.failed',
        response: { status: 'failed' },
      })
    } finally {
      await second.stop()
      rmSync(folder, { recursive: true })
    }
  })
})
