/**
 * SGLang with separate prefill and decode in token mode, with failing servers: both legs run at once and meet in a
 * bootstrap room.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { startGateway } from '../forward/gateway-kit.ts'
import type { Gateway } from '../forward/gateway-kit.ts'
import { until } from '../until.ts'
import { local } from './llama-text.ts'
import { fakeServer, jsonResponse } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

const STORY = [...local.tokenizer.encode('Once upon a time there was a fox', { special: false })]
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n'

/** A stream like SGLang's: each event repeats all ids. */
function events(ids: readonly number[], from: number, finish: object | null = { type: 'length' }) {
  const told = ids.slice(from).map((_, i) => ids.slice(0, from + i + 1))
  const lines = told.map((output_ids, i) => {
    const isLast = i === told.length - 1 && finish !== null
    const meta_info = {
      prompt_tokens: 27,
      completion_tokens: output_ids.length,
      cached_tokens: 0,
      finish_reason: isLast ? finish : null,
    }
    return `data: ${JSON.stringify({ text: '', output_ids, meta_info })}\n\n`
  })
  return lines.join('') + (finish === null ? '' : 'data: [DONE]\n\n')
}

async function sglang(
  role: 'prefill' | 'decode',
  answer: (request: SeenRequest) => string | null,
): Promise<FakeServer> {
  const about: Readonly<Record<string, unknown>> = {
    '/health': {},
    '/model_info': { model_path: 'm' },
    '/server_info': {
      disaggregation_mode: role,
      disaggregation_bootstrap_port: 8998,
      served_model_name: 'm',
      page_size: 1,
      max_total_num_tokens: 100_000,
      context_length: 4096,
      vocab_size: local.tokenizer.vocabSize,
    },
    '/v1/models': { data: [{ id: 'm', owned_by: 'sglang', max_model_len: 4096 }] },
  }
  const server = await fakeServer((request) => {
    if (request.path === '/generate') return answer(request)
    const said = about[request.path]
    return said === undefined ? jsonResponse(404, {}) : jsonResponse(200, said)
  })
  open.push(server)
  return server
}

async function gatewayOf(
  servers: readonly (readonly ['prefill' | 'decode', FakeServer])[],
  more: Readonly<Record<string, unknown>> = {},
) {
  const upstream = servers.map(([role, { url }]) => `${role}=sglang+${url}`).join(',')
  const flags = { upstream, forward: false, model: 'models/storyteller', ...more }
  const gateway = await startGateway([], flags)
  open.push(gateway)
  return gateway
}

async function complete(gateway: Gateway, fields: object = {}, signal?: AbortSignal) {
  const response = await fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'm',
      prompt: 'Tell me a story',
      max_tokens: STORY.length,
      temperature: 0,
      ...fields,
    }),
    ...(signal === undefined ? {} : { signal }),
  })
  return { status: response.status, text: await response.text() }
}

const asked = ({ seen }: FakeServer): readonly SeenRequest[] =>
  seen.filter(({ path }) => path === '/generate')
const bodyOf = (request: SeenRequest | undefined): Record<string, unknown> =>
  JSON.parse(request?.body ?? 'null') as Record<string, unknown>
const roomOf = (request: SeenRequest | undefined): string | undefined =>
  /"bootstrap_room":(\d+)/.exec(request?.body ?? '')?.[1]
const wholePrefill = (): string => HEAD + events(STORY.slice(0, 1), 0)

/** Never answers, and counts aborted requests. */
function silent(): { answer: (request: SeenRequest) => null; left: () => number } {
  let left = 0
  return {
    answer: ({ socket }) => {
      socket.once('close', () => {
        left += 1
      })
      return null
    },
    left: () => left,
  }
}

describe('separate prefill and decode of SGLang in token mode', () => {
  it('both legs - use the same room and separate request ids, and the answer is that of decode', async () => {
    const p = await sglang('prefill', wholePrefill)
    const d = await sglang('decode', () => HEAD + events(STORY, 0))
    const gateway = await gatewayOf([
      ['prefill', p],
      ['decode', d],
    ])
    const { status, text } = await complete(gateway)
    expect(status, text).toBe(200)
    expect(JSON.parse(text)).toMatchObject({
      choices: [{ text: 'Once upon a time there was a fox', finish_reason: 'length' }],
    })
    await until('prefill is asked', () => asked(p).length === 1)
    const [first, second] = [asked(p)[0], asked(d)[0]]
    expect(roomOf(first)).toMatch(/^\d+$/)
    expect(roomOf(first)).toBe(roomOf(second))
    expect(bodyOf(first)['rid']).not.toBe(bodyOf(second)['rid'])
    expect(bodyOf(first)).toMatchObject({
      sampling_params: { max_new_tokens: 1 },
      bootstrap_port: 8998,
    })
    expect(bodyOf(second)).toMatchObject({
      sampling_params: { max_new_tokens: STORY.length },
      input_ids: bodyOf(first)['input_ids'] as number[],
    })
  })

  it.each([
    ['answers 500', () => jsonResponse(500, { error: { message: 'x' } })],
    ['tells an error event', () => `${HEAD}data: {"error":{"message":"KV transfer failed"}}\n\n`],
    [
      'aborts',
      () => HEAD + events(STORY.slice(0, 1), 0, { type: 'abort', message: 'x', status_code: 500 }),
    ],
  ])('prefill %s - the decode request is aborted and not repeated alone', async (_name, answer) => {
    const waiting = silent()
    const p = await sglang('prefill', answer)
    const d = await sglang('decode', waiting.answer)
    const gateway = await gatewayOf([
      ['prefill', p],
      ['decode', d],
    ])
    const { status } = await complete(gateway)
    expect(status).toBeGreaterThanOrEqual(500)
    await until('the decode request is aborted', () => waiting.left() === asked(d).length)
    expect(asked(d).every((request) => roomOf(request) !== undefined)).toBe(true)
    expect(asked(p).length).toBeLessThan(8)
  })

  it.each([
    ['refuses', () => jsonResponse(400, { error: { message: 'no' } }), 400],
    ['answers 500', () => jsonResponse(500, { error: { message: 'x' } }), 500],
  ])(
    'decode %s while prefill computes - the prefill request is aborted',
    async (_name, answer, least) => {
      const waiting = silent()
      const p = await sglang('prefill', waiting.answer)
      const d = await sglang('decode', answer)
      const gateway = await gatewayOf([
        ['prefill', p],
        ['decode', d],
      ])
      const { status } = await complete(gateway)
      expect(status).toBeGreaterThanOrEqual(least)
      await until('the prefill request is aborted', () => waiting.left() === asked(p).length)
    },
  )

  it('prefill hangs after decode has answered - its request is aborted after the grace time', async () => {
    const waiting = silent()
    const p = await sglang('prefill', waiting.answer)
    const d = await sglang('decode', () => HEAD + events(STORY, 0))
    const gateway = await gatewayOf(
      [
        ['prefill', p],
        ['decode', d],
      ],
      { routerConfig: 'test/fixtures/short-grace.json' },
    )
    const { status } = await complete(gateway)
    expect(status).toBe(200)
    await until('the prefill request is aborted', () => waiting.left() === 1)
    expect(asked(p)).toHaveLength(1)
  })

  it('decode dies during the answer - another pair continues after the same tokens in another room', async () => {
    const p = await sglang('prefill', wholePrefill)
    const half = STORY.length >> 1
    let isDead = false
    const answer = (request: SeenRequest): string | null => {
      if (isDead) {
        const { input_ids: prompt } = bodyOf(request)
        const told = (prompt as number[]).slice(-half)
        expect(told).toEqual(STORY.slice(0, half))
        return HEAD + events(STORY.slice(half), 0)
      }
      isDead = true
      request.socket.write(HEAD + events(STORY.slice(0, half), 0, null), () => {
        request.socket.destroySoon()
      })
      return null
    }
    const [one, two] = [await sglang('decode', answer), await sglang('decode', answer)]
    const gateway = await gatewayOf([
      ['prefill', p],
      ['decode', one],
      ['decode', two],
    ])
    const { status, text } = await complete(gateway)
    expect(status, text).toBe(200)
    expect(JSON.parse(text)).toMatchObject({
      choices: [{ text: 'Once upon a time there was a fox' }],
      usage: { completion_tokens: STORY.length },
    })
    await until('prefill is asked twice', () => asked(p).length === 2)
    const rooms = asked(p).map(roomOf)
    expect(new Set(rooms).size).toBe(2)
    expect(new Set([...asked(one), ...asked(two)].map(roomOf))).toEqual(new Set(rooms))
  })

  it('the client disconnects while both legs wait - both are aborted', async () => {
    const [first, second] = [silent(), silent()]
    const p = await sglang('prefill', first.answer)
    const d = await sglang('decode', second.answer)
    const gateway = await gatewayOf([
      ['prefill', p],
      ['decode', d],
    ])
    const leave = new AbortController()
    const asking = complete(gateway, {}, leave.signal).catch(() => null)
    await until('both are asked', () => asked(p).length === 1 && asked(d).length === 1)
    leave.abort()
    await asking
    await until('both requests are aborted', () => first.left() === 1 && second.left() === 1)
  })

  it("an abort with the status of a refusal - is a refusal with the server's message", async () => {
    const message = 'The input is longer than the context of the model'
    const abort = { type: 'abort', message, status_code: 400 }
    const p = await sglang('prefill', wholePrefill)
    const d = await sglang('decode', () => HEAD + events(STORY.slice(0, 1), 0, abort))
    const gateway = await gatewayOf([
      ['prefill', p],
      ['decode', d],
    ])
    const { status, text } = await complete(gateway)
    // It may be about the hand-over, so a second pair of legs is tried.
    expect([status, asked(d).length]).toEqual([400, 2])
    expect(text).toContain(message)
  })
})
