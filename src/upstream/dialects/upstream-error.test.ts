import { describe, expect, it } from 'vitest'
import { errorOfEvent, errorOfResponse, holdsInside, publicMessage } from './upstream-error.ts'

describe('publicMessage', () => {
  it.each([
    'request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it',
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    'temperature must be non-negative, got -1.0.',
    '1 validation error: messages.0.content.1.image_url: Field required',
    'tool `std.internal_tool` is unknown, expected a.local.b',
  ])('%s - is shown', (text) => {
    expect(publicMessage(text)).toBe(text)
  })

  it.each([
    'open /srv/models/llama/config.json failed',
    'File "server.py", line 12',
    'cannot connect to 10.0.0.7',
    'see http://internal/doc',
    'connection to vllm-7:8000 failed',
    'worker.internal.example.org:5600 is away',
    'two\nlines',
    'C:\\models\\x is missing',
    'Server at gpu-3.internal Port 80',
    'vllm-0.vllm.default.svc.cluster.local is away',
    'connect to ip-10-0-3-4 failed',
    'connect to fe80::1 failed',
    'cannot reach [2001:db8::7]',
    '<html><head><title>502 Bad Gateway</title></head></html>',
    "[Errno 2] No such file or directory: '/mnt/a/b'",
    '<class TypeError>',
    '',
  ])('%j - is not shown', (text) => {
    expect(publicMessage(text)).toBeNull()
  })
})

describe('holdsInside', () => {
  /** A search that scans the rest of the text at every character would take minutes. */
  it.each([
    ['a.', false],
    ['a-', false],
    ['a', false],
    ['/', false],
    ['/a', true],
    ["'/a-", false],
    ['ab:', true],
    ['1.', true],
    [' ', false],
    ['c:\\', false],
    ['ip-1', false],
    ['.local', true],
  ])('a long text that repeats %j - is searched in linear time', (piece, holds) => {
    const text = `The model does not exist: ${piece.repeat(300_000 / piece.length)}`
    expect(holdsInside(text)).toBe(holds)
  })
})

describe('errorOfResponse', () => {
  it.each([
    [400, '{"error":{"message":"bad","type":"x","code":400}}', 'backend.invalid_argument'],
    [400, '{"error":"as a text"}', 'backend.invalid_argument'],
    [422, '{"detail":[{"msg":"JSON decode error"}]}', 'backend.invalid_argument'],
    [404, '{"detail":"Not Found"}', 'backend.invalid_argument'],
    [400, 'no JSON at all', 'backend.invalid_argument'],
    [401, '{}', 'backend.worker_unavailable'],
    [403, '{}', 'backend.worker_unavailable'],
    [429, '{}', 'capacity.worker_overloaded'],
    [500, 'Internal Server Error', 'backend.engine_shutdown'],
    [502, '', 'backend.worker_unavailable'],
    [503, '', 'backend.worker_unavailable'],
    [
      400,
      '{"error":{"code":400,"type":"exceed_context_size_error","message":"x"}}',
      'request.context_length_exceeded',
    ],
    [400, '{"message":"maximum context length is 4096"}', 'request.context_length_exceeded'],
  ])('%i %s - is %s', (status, text, code) => {
    const error = errorOfResponse(status, text)
    expect(error.code).toBe(code)
    expect(error.data['upstreamStatus']).toBe(status)
  })
})

describe('the message of a failed engine', () => {
  it.each([
    ['CUDA out of memory. Tried to allocate 2.00 GiB', 'status 500, CUDA out of memory'],
    ['EngineCore encountered an issue. See stack trace', 'status 500, EngineCore'],
    ['cannot write /secret/my prompt', 'status 500'],
  ])('%s - has words for operators, and nothing else of the text', (message, shown) => {
    const error = errorOfResponse(500, JSON.stringify({ error: { message } }))
    expect(error.message).toBe(`the engine failed (${shown})`)
  })
})

describe('the message of an engine that refuses its frontend', () => {
  it.each([
    [401, 'Unauthorized', 'the credentials of its frontend (status 401): Unauthorized'],
    [401, 'bad key sk-abc1', 'the credentials of its frontend (status 401): bad key …'],
    [
      401,
      'key Ab1********yz is wrong',
      'the credentials of its frontend (status 401): key … is wrong',
    ],
    [401, 'not 3f9c0a77b1d24e55', 'the credentials of its frontend (status 401): not …'],
    [
      403,
      'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out',
      'to serve this to its frontend (status 403): Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out',
    ],
    [403, 'see /srv/x/y.py', 'to serve this to its frontend (status 403)'],
  ])('%i %s - has its words without keys', (status, message, shown) => {
    const error = errorOfResponse(status, JSON.stringify({ error: { message } }))
    expect(error.message).toBe(`the engine refuses ${shown}`)
  })
})

describe('errorOfEvent', () => {
  it('an event that is no error - null', () => {
    expect(errorOfEvent({ choices: [] })).toBeNull()
    expect(errorOfEvent(null)).toBeNull()
    expect(errorOfEvent({ error: null })).toBeNull()
  })

  it.each([
    [{ error: { message: 'EngineCore died', code: 500 } }, 'backend.engine_shutdown'],
    [{ error: 'gone' }, 'backend.engine_shutdown'],
    [{ object: 'error', message: 'no', code: 400 }, 'backend.invalid_argument'],
  ])('%j - is %s', (event, code) => {
    expect(errorOfEvent(event)?.code).toBe(code)
  })
})
