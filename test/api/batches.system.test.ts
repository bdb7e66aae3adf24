import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toFile } from 'openai'
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runBaton, startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { clientOf } from './openai-of.ts'
import { until } from '../until.ts'

const FAST = ['--engine', 'sim', '--sim-speedup', '0', '--in-process', '--aggregated', '1']
/** A token takes milliseconds, so that some work is always half done. */
const SLOW = ['--engine', 'sim', '--in-process', '--aggregated', '1', '--sequences', '8']

const lineOf = (customId: string, fields: object = {}) => ({
  custom_id: customId,
  method: 'POST',
  url: '/v1/chat/completions',
  body: {
    model: 'storyteller',
    max_tokens: 8,
    messages: [{ role: 'user', content: `Say ${customId}` }],
    ...fields,
  },
})

async function upload(client: OpenAI, lines: readonly unknown[]) {
  const text = lines
    .map((line) => (typeof line === 'string' ? line : JSON.stringify(line)))
    .join('\n')
  const file = await toFile(Buffer.from(text), 'input.jsonl')
  return await client.files.create({ file, purpose: 'batch' })
}

async function begin(client: OpenAI, lines: readonly unknown[], fields: object = {}) {
  const { id } = await upload(client, lines)
  return await client.batches.create({
    input_file_id: id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
    ...fields,
  })
}

async function ended(client: OpenAI, id: string) {
  let batch = await client.batches.retrieve(id)
  await until(`the end of ${id}`, async () => {
    batch = await client.batches.retrieve(id)
    return ['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)
  })
  return batch
}

interface AnswerLine {
  readonly custom_id: string
  readonly response: {
    readonly status_code: number
    readonly body: Record<string, unknown>
  } | null
  readonly error: { readonly code: string } | null
}

async function linesOf(client: OpenAI, id: string | null | undefined): Promise<AnswerLine[]> {
  if (id === null || id === undefined) return []
  const text = await (await client.files.content(id)).text()
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as AnswerLine)
}

const folder = () => mkdtempSync(join(tmpdir(), 'baton-batches-'))

describe('batches with the openai client', () => {
  const dir = folder()
  let server: RunningServer
  let client: OpenAI
  beforeAll(async () => {
    server = await startServer([...FAST, '--files-dir', dir, '--files-limit', '200kB'])
    client = clientOf(server)
  })
  afterAll(async () => {
    await server.stop()
    rmSync(dir, { recursive: true })
  })

  it('a batch - each line has one answer; refused lines are in the error file', async () => {
    const lines = [lineOf('a'), lineOf('b', { max_tokens: -1 }), '', lineOf('c')]
    const begun = await begin(client, lines, { metadata: { for: 'a test' } })
    expect(begun).toMatchObject({ object: 'batch', output_file_id: null, error_file_id: null })
    const batch = await ended(client, begun.id)
    expect(batch).toMatchObject({
      status: 'completed',
      errors: null,
      request_counts: { total: 3, completed: 2, failed: 1 },
      metadata: { for: 'a test' },
      usage: { output_tokens: 16 },
    })
    expect(batch.expires_at).toBe(batch.created_at + 86_400)
    const output = await linesOf(client, batch.output_file_id)
    expect(output.map(({ custom_id }) => custom_id).toSorted()).toEqual(['a', 'c'])
    const direct = await client.chat.completions.create({
      ...lineOf('a').body,
      messages: [{ role: 'user', content: 'Say a' }],
      stream: false,
    })
    const answer = output.find(({ custom_id }) => custom_id === 'a')?.response
    expect(answer?.status_code).toBe(200)
    expect(answer?.body).toMatchObject({ object: 'chat.completion', usage: direct.usage })
    const [refused] = await linesOf(client, batch.error_file_id)
    expect(refused).toMatchObject({
      custom_id: 'b',
      response: { status_code: 400, body: { error: { param: 'max_tokens' } } },
    })
  })

  it.each([
    ['/v1/completions', { prompt: 'Once' }, 'text_completion'],
    ['/v1/responses', { input: 'Once' }, 'response'],
    ['/v1/embeddings', { input: 'Once' }, 'list'],
  ] as const)('%s', async (endpoint, fields, object) => {
    const line = { custom_id: 'x', method: 'POST', url: endpoint }
    const begun = await begin(client, [{ ...line, body: { model: 'storyteller', ...fields } }], {
      endpoint,
    })
    const { output_file_id: id } = await ended(client, begun.id)
    expect((await linesOf(client, id))[0]?.response?.body['object']).toBe(object)
  })

  it('names and answers that are not ASCII - the files are whole', async () => {
    const names = ['é', '名前', '🙂']
    const texts = [...names.map((name) => lineOf(name)), lineOf('ñ', { max_tokens: -1 })]
    const batch = await ended(client, (await begin(client, texts)).id)
    for (const [id, expected] of [
      [batch.output_file_id, names],
      [batch.error_file_id, ['ñ']],
    ] as const) {
      const lines = await linesOf(client, id)
      expect(new Set(lines.map(({ custom_id: name }) => name))).toEqual(new Set(expected))
      const text = await (await client.files.content(id as string)).text()
      expect((await client.files.retrieve(id as string)).bytes).toBe(Buffer.byteLength(text))
    }
  })

  it('an invalid input file - every error is listed with its line, and no request runs', async () => {
    const begun = await begin(client, [
      lineOf('a'),
      '{"custom_id":',
      lineOf('a'),
      { ...lineOf('b'), url: '/v1/embeddings' },
      { ...lineOf('c'), method: 'GET' },
      lineOf('d', { stream: true }),
      { ...lineOf('e'), body: 1 },
      { ...lineOf(''), body: {} },
    ])
    const batch = await ended(client, begun.id)
    expect(batch).toMatchObject({ status: 'failed', output_file_id: null })
    expect(batch.errors?.data?.map(({ code, line }) => [line, code])).toEqual([
      [2, 'invalid_json_line'],
      [3, 'duplicate_custom_id'],
      [4, 'mismatched_url'],
      [5, 'invalid_method'],
      [6, 'invalid_request'],
      [7, 'missing_required_parameter'],
      [8, 'missing_required_parameter'],
    ])
  })

  it('an empty input, an unknown file, another window or endpoint - is refused', async () => {
    expect(await ended(client, (await begin(client, [])).id)).toMatchObject({
      status: 'failed',
      errors: { data: [{ code: 'empty_file' }] },
    })
    await expect(
      client.batches.create({
        input_file_id: 'file-1',
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      }),
    ).rejects.toMatchObject({ status: 404 })
    const { id } = await upload(client, [lineOf('a')])
    for (const fields of [
      { completion_window: '31d' },
      { completion_window: 'soon' },
      { endpoint: '/v1/models' },
    ]) {
      const asked = {
        input_file_id: id,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
        ...fields,
      } as OpenAI.BatchCreateParams
      await expect(client.batches.create(asked)).rejects.toMatchObject({ status: 400 })
    }
  })

  it('files - are listed in pages, read and deleted; the total size is limited', async () => {
    const kept = await upload(client, [lineOf('a')])
    expect(kept).toMatchObject({ object: 'file', purpose: 'batch', filename: 'input.jsonl' })
    expect(await client.files.retrieve(kept.id)).toEqual(kept)
    expect(await (await client.files.content(kept.id)).text()).toBe(JSON.stringify(lineOf('a')))
    const ids: string[] = []
    for await (const file of client.files.list({ limit: 2, purpose: 'batch' })) ids.push(file.id)
    expect(ids).toContain(kept.id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(await client.files.delete(kept.id)).toMatchObject({ deleted: true })
    await expect(client.files.retrieve(kept.id)).rejects.toMatchObject({ status: 404 })
    await expect(client.files.content('../../etc/passwd')).rejects.toMatchObject({ status: 404 })
    await expect(upload(client, ['x'.repeat(200_000)])).rejects.toMatchObject({ status: 529 })
    const odd = await toFile(Buffer.from('x'), 'x')
    await expect(
      client.files.create({ file: odd, purpose: 'nothing' as 'batch' }),
    ).rejects.toMatchObject({ status: 400, param: 'purpose' })
    const batches: string[] = []
    for await (const { id } of client.batches.list({ limit: 2 })) batches.push(id)
    expect(new Set(batches).size).toBe(batches.length)
    expect(batches.length).toBeGreaterThan(2)
  })
})

describe('a batch during a restart', () => {
  const dir = folder()
  afterAll(() => rmSync(dir, { recursive: true }))
  const lines = Array.from({ length: 60 }, (_, i) => lineOf(`r${i}`, { max_tokens: 12 }))

  it('kill -9 - the batch continues with one answer per line; then cancel and the completion window', async () => {
    const first = await startServer([...SLOW, '--files-dir', dir])
    const begun = await begin(clientOf(first), lines)
    let seen = 0
    await until('some are done', async () => {
      const { request_counts: counts } = await clientOf(first).batches.retrieve(begun.id)
      seen = counts?.completed ?? 0
      return seen >= 10
    })
    first.process.kill('SIGKILL')
    await until('it is dead', () => first.process.signalCode === 'SIGKILL')
    const second = await startServer([...SLOW, '--files-dir', dir])
    try {
      const client = clientOf(second)
      const { request_counts: counts } = await client.batches.retrieve(begun.id)
      expect(counts?.completed).toBeGreaterThanOrEqual(seen)
      const batch = await ended(client, begun.id)
      expect(batch).toMatchObject({
        status: 'completed',
        request_counts: { total: 60, completed: 60, failed: 0 },
        usage: { output_tokens: 60 * 12 },
      })
      const answers = await linesOf(client, batch.output_file_id)
      expect(answers.map(({ custom_id: id }) => id).toSorted()).toEqual(
        lines.map(({ custom_id: id }) => id).toSorted(),
      )

      const long = Array.from({ length: 40 }, (_, i) => lineOf(`l${i}`, { max_tokens: 400 }))
      const cancelled = await begin(client, long)
      await until('it runs', async () => {
        return (await client.batches.retrieve(cancelled.id)).status === 'in_progress'
      })
      expect((await client.batches.cancel(cancelled.id)).status).toBe('cancelling')
      const gone = await ended(client, cancelled.id)
      expect(gone.status).toBe('cancelled')
      expect(gone.request_counts?.failed).toBeGreaterThan(30)
      const errors = await linesOf(client, gone.error_file_id)
      expect(new Set(errors.map(({ error }) => error?.code))).toEqual(new Set(['batch_cancelled']))
      await expect(client.batches.cancel(cancelled.id)).rejects.toMatchObject({ status: 409 })

      const late = await ended(client, (await begin(client, long, { completion_window: '1s' })).id)
      expect(late).toMatchObject({ status: 'expired', request_counts: { total: 40 } })
      const why = await linesOf(client, late.error_file_id)
      expect(why.some(({ error }) => error?.code === 'batch_expired')).toBe(true)
    } finally {
      await second.stop()
    }
  })
})

describe('owner of files and batches', () => {
  it('with keys - they belong to the tenant, others get 404', async () => {
    const dir = folder()
    const keys = join(dir, 'keys.json')
    const texts: string[] = []
    for (const tenant of ['acme', 'other']) {
      const added = await runBaton(['keys', 'add', '--file', keys, '--tenant', tenant])
      texts.push(/^baton_\S+$/m.exec(added.printed)?.[0] ?? '')
    }
    const server = await startServer([...FAST, '--keys', keys, '--files-dir', join(dir, 'f')])
    try {
      const [acme, other] = texts.map((text) => clientOf(server, text)) as [OpenAI, OpenAI]
      const begun = await begin(acme, [lineOf('a')])
      const batch = await ended(acme, begun.id)
      expect(batch).toMatchObject({ status: 'completed', request_counts: { completed: 1 } })
      await expect(other.batches.retrieve(begun.id)).rejects.toMatchObject({ status: 404 })
      await expect(other.batches.cancel(begun.id)).rejects.toMatchObject({ status: 404 })
      await expect(other.files.content(batch.input_file_id)).rejects.toMatchObject({ status: 404 })
      await expect(other.files.delete(batch.input_file_id)).rejects.toMatchObject({ status: 404 })
      expect((await other.batches.list()).data).toEqual([])
      expect((await other.files.list()).data).toEqual([])
      await expect(
        other.batches.create({
          input_file_id: batch.input_file_id,
          endpoint: '/v1/chat/completions',
          completion_window: '24h',
        }),
      ).rejects.toMatchObject({ status: 404 })
    } finally {
      await server.stop()
      rmSync(dir, { recursive: true })
    }
  })
})
