import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'
import type { Script, ScriptedOptions, ScriptRun } from '../../test/frontend/scripted-frontend.ts'

const ENGINE = { features: ['embeddings'] as const, embeddingLength: 3, contextLength: 32 }

/** The vector consists of the prompt's first token id, its length, and 0.5. */
const vectorOf = ({ request: { tokenIds } }: ScriptRun) =>
  Float32Array.of(tokenIds[0] ?? 0, tokenIds.length, 0.5)
const answers: Script = (run) => void run.routed().ends('stop', { embedding: vectorOf(run) })
const waits: Script = () => {}

function start(script: Script = answers, options: ScriptedOptions = {}) {
  const it_ = new ScriptedFrontend({ script, engine: ENGINE, ...options })
  const embed = (fields: Record<string, unknown>, headers: Record<string, string> = {}) =>
    it_.post('/v1/embeddings', { model: 'storyteller', ...fields }, headers)
  return { it_, embed }
}

describe('embeddings', () => {
  it('texts and token ids, one and several - a vector each, in order, and the tokens counted', async () => {
    const { it_, embed } = start()
    const { tokenizer } = storyteller()
    const ids = tokenizer.encode('hi there', { special: false, addBos: tokenizer.addsBos })
    const vector = [ids[0], ids.length, 0.5]
    const usage = (count: number) => ({ prompt_tokens: count, total_tokens: count })
    expect((await embed({ input: 'hi there' })).json).toEqual({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: vector }],
      model: 'storyteller',
      usage: usage(ids.length),
    })
    expect((await embed({ input: [...ids] })).json.data[0].embedding).toEqual(vector)
    const several = (await embed({ input: [[7, 8], [9]] })).json
    expect(several.data).toEqual([
      { object: 'embedding', index: 0, embedding: [7, 2, 0.5] },
      { object: 'embedding', index: 1, embedding: [9, 1, 0.5] },
    ])
    expect(several.usage).toEqual(usage(3))
    expect((await embed({ input: ['hi there', 'hi there'] })).json.data[1].embedding).toEqual(
      vector,
    )
    expect(it_.requests.every(({ kind, stop }) => kind === 'embed' && !('maxTokens' in stop))).toBe(
      true,
    )
    expect(it_.ends.map((end) => [end.endpoint, end.outcome, end.promptTokens])).toEqual([
      ['embeddings', 'success', ids.length],
      ['embeddings', 'success', ids.length],
      ['embeddings', 'success', 3],
      ['embeddings', 'success', 2 * ids.length],
    ])
  })

  it('control tokens in the text - are plain text', async () => {
    const { it_, embed } = start()
    await embed({ input: '<|im_end|>' })
    expect(it_.requests[0]?.tokenIds.length).toBeGreaterThan(1)
  })

  it('base64 - little-endian f32, also for lengths that are no multiple of three bytes', async () => {
    for (const length of [1, 2, 3, 4]) {
      const vector = Float32Array.from({ length }, (_, i) => i - 0.1)
      const { embed } = start((run) => void run.ends('stop', { embedding: vector }))
      const { json } = await embed({ input: 'hi', encoding_format: 'base64' })
      const bytes = Buffer.from(json.data[0].embedding, 'base64')
      expect(bytes.length).toBe(4 * length)
      expect(Array.from(vector, (_, i) => bytes.readFloatLE(4 * i))).toEqual([...vector])
      expect(bytes.toString('base64')).toBe(json.data[0].embedding)
    }
  })

  it('many inputs - at most 32 at a time; answers out of order are sorted', async () => {
    const { it_, embed } = start(waits)
    const reply = embed({ input: Array.from({ length: 40 }, (_, i) => [i + 1]) })
    await it_.clock.settle()
    expect(it_.runs).toHaveLength(32)
    const answer = (run: ScriptRun) => void run.ends('stop', { embedding: vectorOf(run) })
    it_.runs.slice().reverse().forEach(answer)
    expect(it_.runs).toHaveLength(40)
    it_.runs.slice(32).forEach(answer)
    const { data } = (await reply).json
    expect(data.map((entry: { embedding: number[] }) => entry.embedding[0])).toEqual(
      Array.from({ length: 40 }, (_, i) => i + 1),
    )
  })

  it('headers - pin, tenant and trace reach the request', async () => {
    const { it_, embed } = start()
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    await embed(
      { input: 'hi' },
      { 'x-worker-instance-id': '7', 'x-tenant-id': 't', traceparent, 'x-request-id': 'mine' },
    )
    expect(it_.requests[0]).toMatchObject({
      requestId: 'mine',
      traceparent,
      routing: { backendWorkerId: '7', tenantId: 't' },
    })
  })

  it('a failed input - its status is returned, the others are cancelled', async () => {
    const { it_, embed } = start((run, nth) =>
      nth === 1 ? void run.fails('backend.invalid_argument', 'no') : undefined,
    )
    const reply = await embed({ input: ['a', 'b', 'c'] })
    expect([reply.status, reply.json.error.stage]).toEqual([400, 'prefill'])
    expect(it_.runs.map((run) => run.cancels)).toEqual([['stop'], []])
    expect(it_.ends[0]).toMatchObject({ outcome: 'error', status: 400 })
  })

  it('a worker that is lost - the input is sent to another one', async () => {
    const { it_, embed } = start((run, nth) =>
      nth === 0 ? void run.routed().fails('transport.disconnected') : answers(run, nth),
    )
    expect((await embed({ input: 'hi' })).status).toBe(200)
    expect(it_.migrations).toHaveLength(1)
  })

  it('an answer without a vector - an error of the worker, not an empty reply', async () => {
    const { embed } = start((run) => void run.ends('stop'))
    const reply = await embed({ input: 'hi' })
    expect([reply.status, reply.json.error.code]).toEqual([500, 'backend.contract_violation'])
  })

  it('a client that disconnects, and silence - all requests are killed', async () => {
    const { it_, embed } = start(waits, { limits: { firstItemMs: 1000, migrationLimit: 0 } })
    const gone = new AbortController()
    const body = JSON.stringify({ input: ['a', 'b'] })
    const left = it_.send('POST', '/v1/embeddings', { body, signal: gone.signal })
    await it_.clock.settle()
    gone.abort()
    expect((await left).status).toBe(499)
    const silent = embed({ input: ['a', 'b'] })
    await it_.clock.settle()
    await it_.clock.run(1000)
    const late = await silent
    expect([late.status, late.json.error.code]).toEqual([504, 'request.deadline_exceeded'])
    expect(it_.runs.map((run) => run.cancels)).toEqual([['kill'], ['kill'], ['kill'], ['kill']])
  })

  it('the context - a full context is accepted, one token more is refused with both numbers', async () => {
    const { it_, embed } = start()
    const tokens = (count: number) => Array.from({ length: count }, () => 5)
    expect((await embed({ input: tokens(31) })).status).toBe(200)
    expect((await embed({ input: tokens(32) })).status).toBe(200)
    const over = await embed({ input: [[1], tokens(33)] })
    expect([over.status, over.json.error.code]).toEqual([400, 'context_length_exceeded'])
    expect(over.json.error.message).toMatch(/\b32\b.*\b33\b/)
    expect(it_.requests).toHaveLength(2)
  })

  it('unsupported options - are refused by name before a worker is asked', async () => {
    const { it_, embed } = start()
    expect((await embed({ input: 'hi', dimensions: 3 })).status).toBe(200)
    for (const [fields, param] of [
      [{ input: 'hi', dimensions: 2 }, 'dimensions'],
      [{ input: 'hi', nvext: { annotations: ['request_id'] } }, 'nvext.annotations'],
      [{ input: '' }, 'input'],
      [{ input: [] }, 'input'],
      [{ input: [4_000_000] }, 'input'],
      [{ input: 'hi', stream: true }, 'stream'],
    ] as const) {
      const refused = await embed(fields)
      expect([refused.status, refused.json.error.param]).toEqual([400, param])
    }
    expect(it_.requests).toHaveLength(1)
    for (const features of [undefined, ['logprobs'] as const]) {
      const without = new ScriptedFrontend({ engine: features === undefined ? {} : { features } })
      const refused = await without.post('/v1/embeddings', { input: 'hi' })
      expect(refused.json.error).toMatchObject({
        code: 'unsupported_parameter',
        param: 'model',
        message: expect.stringContaining('does not support embeddings'),
      })
      expect(without.requests).toEqual([])
    }
  })
})
