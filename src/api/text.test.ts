import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BatonError } from '../base/index.ts'
import { ChatChoiceChunks, CompletionChoiceChunks, usageEvent } from './replies/chunk-text.ts'
import { errorReply } from './replies/error-reply.ts'
import { readJsonObject } from './fields/json-body.ts'
import {
  asciiJson,
  escapeJson,
  quoteJson,
  withQuotedWorkerIds,
  withRawWorkerIds,
} from './fields/json-escape.ts'
import { traceparentOf } from './fields/routing-headers.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const HEAD = { id: 'chatcmpl-1', created: 7, model: 'mödel "x"' }
const anyText = fc.string({ unit: 'binary', maxLength: 40 })

/** Every UTF-16 unit, so also halves of surrogate pairs. */
const anyUnits = fc
  .array(fc.nat({ max: 0xffff }), { maxLength: 40 })
  .map((units) => String.fromCharCode(...units))

describe('escape', () => {
  it('any text - becomes ASCII and is restored by JSON.parse', () => {
    fc.assert(
      fc.property(fc.oneof(anyText, anyUnits), (text) => {
        const quoted = quoteJson(text)
        // oxlint-disable-next-line no-control-regex -- control characters must be escaped
        expect(quoted).toMatch(/^[\u0020-\u007e]*$/)
        expect(JSON.parse(quoted)).toBe(text)
        expect(JSON.parse(asciiJson({ [text]: [text] }))).toEqual({ [text]: [text] })
      }),
    )
  })

  it('plain text - is returned as the same string', () => {
    expect(escapeJson(' plain text!')).toBe(' plain text!')
  })

  it('worker ids - become integers, but not inside user text', () => {
    const json = asciiJson({ worker_id: '18446744073709551615', name: '"worker_id":"12"' })
    expect(withRawWorkerIds(json)).toBe(
      '{"worker_id":18446744073709551615,"name":"\\"worker_id\\":\\"12\\""}',
    )
  })

  it('parsed worker ids - keep all digits, text stays unchanged', () => {
    const json =
      '{"workerId":18446744073709551615,"a":[{"worker_id":7,"decode_worker_id": 18446744073709551614}],' +
      '"text":"\\"workerId\\":7"}'
    expect(JSON.parse(withQuotedWorkerIds(json))).toEqual({
      workerId: '18446744073709551615',
      a: [{ worker_id: '7', decode_worker_id: '18446744073709551614' }],
      text: '"workerId":7',
    })
  })
})

describe('chunks', () => {
  const data = (event: string) => JSON.parse(event.slice('data: '.length))

  it('chat - any text in any pieces is restored', () => {
    fc.assert(
      fc.property(fc.array(anyText), fc.boolean(), (pieces, includeUsage) => {
        const chunks = new ChatChoiceChunks(HEAD, { index: 3, includeUsage })
        const events = pieces.map((piece) => data(chunks.content(piece)))
        expect(events.map((event) => event.choices[0].delta.content)).toEqual(pieces)
        expect(events.map((event) => event.choices[0].delta.role)).toEqual(
          pieces.map((_, i) => (i === 0 ? 'assistant' : undefined)),
        )
        for (const event of events) {
          expect(event).toMatchObject({ ...HEAD, object: 'chat.completion.chunk' })
          expect('usage' in event).toBe(includeUsage)
        }
      }),
    )
  })

  it('both ways to build a chunk - give the same bytes', () => {
    const options = { index: 0, includeUsage: true }
    const completion = new CompletionChoiceChunks(HEAD, options)
    expect(completion.content('é\n')).toBe(completion.contentWith('é\n', {}))
    const chat = new ChatChoiceChunks(HEAD, options)
    chat.content('first')
    expect(chat.content('é\n')).toBe(chat.contentWith('é\n', {}))
  })

  it('a finish without text - includes the role', () => {
    const event = data(new ChatChoiceChunks(HEAD, { index: 0, includeUsage: false }).finish('stop'))
    expect(event.choices[0]).toEqual({
      index: 0,
      delta: { role: 'assistant' },
      logprobs: null,
      finish_reason: 'stop',
    })
  })

  it('usage - has no choices, and details only if known', () => {
    const usage = { promptTokens: 2, completionTokens: 3, totalTokens: 5, reasoningTokens: 0 }
    expect(data(usageEvent(HEAD, 'text_completion', usage))).toEqual({
      ...HEAD,
      object: 'text_completion',
      choices: [],
      usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 },
    })
    const all = { ...usage, reasoningTokens: 1, cachedTokens: 0 }
    expect(data(usageEvent(HEAD, 'text_completion', all)).usage).toMatchObject({
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 1 },
    })
  })
})

describe('bodies', () => {
  const read = (body: string | Uint8Array, type?: string) =>
    readJsonObject(typeof body === 'string' ? bytes(body) : body, type)

  it('content type - JSON types are accepted, others get 415', () => {
    for (const type of [
      undefined,
      '',
      'application/json',
      'Application/JSON; charset=utf-8',
      'application/x+json',
    ]) {
      expect(read('{}', type)).toEqual({})
    }
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx']) {
      expect(() => read('{}', type)).toThrow(
        expect.objectContaining({ code: 'request.unsupported_media' }),
      )
    }
  })

  it('raw control characters and invalid UTF-8 inside strings - accepted', () => {
    expect(read('{"a":"x\ny\tz\u0001"}')).toEqual({ a: 'x\ny\tz\u0001' })
    const broken = Uint8Array.from([...bytes('{"a":"'), 0xff, 0xc3, ...bytes('"}')])
    expect(read(broken)).toEqual({ a: '\ufffd\ufffd' })
  })

  it('any string with raw control characters - is restored', () => {
    const unit = fc.constantFrom('a', 'é', '🦊', '\\"', '\\\\', '\n', '\t', '\u0000', '\u001f')
    fc.assert(
      fc.property(fc.array(unit), fc.array(unit), (first, second) => {
        const literal = (units: string[]) => `"${units.join('')}"`
        const value = (units: string[]) => units.join('').replaceAll(/\\(.)/g, '$1')
        expect(read(`{\n"a":${literal(first)},\t"b":${literal(second)}}`)).toEqual({
          a: value(first),
          b: value(second),
        })
      }),
    )
  })

  it('a long body made to be slow - is processed in linear time', () => {
    const many = 200_000
    expect(read(`{"a":"${'x\n'.repeat(many)}"}`)).toEqual({ a: 'x\n'.repeat(many) })
    for (const unit of ['"', '"\n', '\n"', '\\"', '{"a":', '[', '"[']) {
      expect(() => read(unit.repeat(many))).toThrow(
        expect.objectContaining({ code: 'request.invalid_argument' }),
      )
    }
  })

  it('nesting of a long body - accepted at the limit, refused beyond; brackets in strings do not count', () => {
    const nested = (depth: number) =>
      `{"pad":"${'[\\"'.repeat(30_000)}","a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
    for (const depth of [999, 1000]) expect(read(nested(depth))).toHaveProperty('a')
    // A short body is no exception.
    const lists = (depth: number) => `{"a":${'['.repeat(depth)}1${']'.repeat(depth)}}`
    expect(read(lists(999))).toHaveProperty('a')
    expect(() => read(lists(1000))).toThrow('nested more than 1000 deep')
    const text = `"${'{'.repeat(2000)}\\"${'['.repeat(2000)}\\\\"`
    expect(read(`{"a":${text},"b":"${'['.repeat(2000)}"}`)).toHaveProperty('b')
    expect(() => read(nested(1001))).toThrow('nested more than 1000 deep')
  })

  it('values of a long body - accepted at the limit, refused beyond; numbers in lists have their own limit', () => {
    const list = (count: number, value: string) => `{"a":[${`${value},`.repeat(count)}${value}]}`
    const [values, numbers] = [256 * 1024, 4 * 1024 * 1024]
    // The object and its list count, too.
    const elements = values - 2
    for (const count of [elements - 1, elements]) {
      expect(read(list(count, '""'))).toHaveProperty('a')
    }
    expect(() => read(list(elements + 1, '""'))).toThrow('more than 262144 values')
    for (const count of [numbers - 1, numbers]) expect(read(list(count, '1'))).toHaveProperty('a')
    expect(() => read(list(numbers + 1, '1'))).toThrow('more than 4194304 numbers')
    expect(read(`{"a":"${','.repeat(values + 1)}"}`)).toHaveProperty('a')
  })

  it('lists in lists of a long body - each counts as a value', () => {
    const chain = `${'['.repeat(900)}${']'.repeat(900)}`
    const body = (chains: number) => `{"a":[${Array.from({ length: chains }, () => chain).join()}]}`
    expect(read(body(291))).toHaveProperty('a')
    expect(() => read(body(292))).toThrow('more than 262144 values')
  })

  it('invalid JSON, or no object - 400', () => {
    for (const body of ['', '{', '{"a":}', '[]', '1', 'null', '"x"', '{"a":"\\u12"}']) {
      expect(() => read(body)).toThrow(
        expect.objectContaining({ code: 'request.invalid_argument' }),
      )
    }
  })

  it('ids in user text - stay unchanged', () => {
    const content = 'say "backend_instance_id": 18446744073709551615, please'
    expect(read(JSON.stringify({ content }))).toEqual({ content })
  })

  it('random bytes - throw only BatonErrors', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (body) => {
        try {
          read(body)
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(BatonError)
        }
      }),
    )
  })
})

describe('errors', () => {
  it('body - message, type, param, code; retry-after if a retry may help', () => {
    const error = new BatonError('capacity.exhausted', 'full é', { data: { param: 'x' } })
    const reply = errorReply(error)
    expect(reply.status).toBe(529)
    expect(reply.headers['retry-after']).toBe('1')
    expect(JSON.parse(reply.body)).toEqual({
      error: {
        message: 'full é',
        type: 'overloaded_error',
        param: 'x',
        code: 'capacity.exhausted',
      },
    })
    expect(reply.body).toContain('\\u00e9')
  })

  it('a full queue - limit, current value and the time to retry, in whole seconds', () => {
    const data = { stage: 'queue', limit: 8, current: 9, retryAfterMs: 2001 }
    const reply = errorReply(new BatonError('capacity.exhausted', 'full', { data }))
    expect(reply.headers['retry-after']).toBe('3')
    const { error } = JSON.parse(reply.body) as { error: object }
    expect(error).toMatchObject({ stage: 'queue', limit: 8, current: 9 })
    const soon = new BatonError('capacity.exhausted', 'full', { data: { retryAfterMs: 5 } })
    expect(errorReply(soon).headers['retry-after']).toBe('1')
  })
})

describe('trace context', () => {
  it('malformed or all zero - is ignored', () => {
    const good = '00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    expect(traceparentOf({ traceparent: good })).toBe(good.toLowerCase())
    for (const bad of [
      '',
      'x',
      `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
      good.replace('00-', 'ff-'),
      `${good}-more`,
      `${good}x`,
      `${good}, ${good}`,
      good.replace(/01$/, 'zz'),
    ]) {
      expect(traceparentOf({ traceparent: bad }), bad).toBeUndefined()
    }
  })

  it('a later version - its known fields are passed on as version 00', () => {
    const context = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    for (const later of [`01-${context}`, `cc-${context}-more-fields`])
      expect(traceparentOf({ traceparent: later })).toBe(`00-${context}`)
    expect(traceparentOf({ traceparent: `cc-${context}.more` })).toBeUndefined()
  })
})
