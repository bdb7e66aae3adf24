import type OpenAI from 'openai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { until } from '../until.ts'
import { HAS_SQLITE, clientOf } from './openai-of.ts'

const SIM = ['--engine', 'sim', '--in-process', '--aggregated', '1']

describe('background responses with the openai client', () => {
  let server: RunningServer
  let client: OpenAI
  beforeAll(async () => {
    server = await startServer(SIM)
    client = clientOf(server)
  })
  afterAll(async () => {
    await server.stop()
  })

  const begin = (fields: object = {}) =>
    client.responses.create({
      model: 'storyteller',
      input: 'Say something',
      max_output_tokens: 8,
      background: true,
      stream: false as const,
      ...fields,
    })
  const running = async (): Promise<number> => {
    const reply = await fetch(`${server.url}/debug/fleet`)
    return ((await reply.json()) as { requestsInFlight: number }).requestsInFlight
  }
  const ended = async (id: string) => {
    let response = await client.responses.retrieve(id)
    await until(`the end of ${id}`, async () => {
      response = await client.responses.retrieve(id)
      return !['queued', 'in_progress'].includes(response.status ?? '')
    })
    return response
  }

  it('background response - is returned at once, can be polled, and is then stored like any other', async () => {
    const queued = await begin()
    expect(queued).toMatchObject({ status: 'queued', background: true, store: true, output: [] })
    const response = await ended(queued.id)
    expect(response).toMatchObject({
      id: queued.id,
      background: true,
      created_at: queued.created_at,
    })
    expect(['completed', 'incomplete']).toContain(response.status)
    expect(response.usage?.output_tokens).toBe(8)
    const next = await begin({ previous_response_id: queued.id })
    expect((await ended(next.id)).usage?.input_tokens).toBeGreaterThan(
      response.usage?.input_tokens ?? Infinity,
    )
    await expect(client.responses.cancel(queued.id)).rejects.toMatchObject({ status: 400 })
  })

  it('cancel and delete - stop the work on the worker; a following response has to wait for the end', async () => {
    const long = await begin({ max_output_tokens: 3000 })
    await until('it runs', async () => (await running()) === 1)
    await expect(begin({ previous_response_id: long.id })).rejects.toMatchObject({ status: 409 })
    expect((await client.responses.cancel(long.id)).status).toBe('cancelled')
    expect((await client.responses.cancel(long.id)).status).toBe('cancelled')
    await until('nothing runs', async () => (await running()) === 0)
    expect((await client.responses.retrieve(long.id)).status).toBe('cancelled')

    const deleted = await begin({ max_output_tokens: 3000 })
    await until('it runs', async () => (await running()) === 1)
    await client.responses.delete(deleted.id)
    await until('nothing runs', async () => (await running()) === 0)
    await expect(client.responses.retrieve(deleted.id)).rejects.toMatchObject({ status: 404 })
  })

  it('errors - failures set the status of the response, invalid requests are refused at once', async () => {
    const failed = await ended((await begin({ input: 'word '.repeat(5000) })).id)
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt' } })
    for (const [fields, status] of [
      [{ store: false }, 400],
      [{ model: 'nobody' }, 404],
      [{ temperature: 9 }, 400],
    ] as const) {
      await expect(begin(fields)).rejects.toMatchObject({ status })
    }
  })
})

describe.runIf(HAS_SQLITE)('background responses after a restart', () => {
  it('a response that no process computes any more - has failed', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'baton-background-'))
    const state = ['--state', `sqlite:${join(dir, 's.db')}`]
    const first = await startServer([...SIM, ...state])
    const { id } = await clientOf(first).responses.create({
      model: 'storyteller',
      input: 'Say something',
      max_output_tokens: 3000,
      background: true,
    })
    await first.stop()
    const second = await startServer([...SIM, ...state])
    try {
      // A frontend without a heartbeat for 15 s counts as dead; until then another frontend may still compute the
      // response.
      await expect
        .poll(() => clientOf(second).responses.retrieve(id), { timeout: 100_000, interval: 500 })
        .toMatchObject({ status: 'failed' })
    } finally {
      await second.stop()
      rmSync(dir, { recursive: true })
    }
  })
})
