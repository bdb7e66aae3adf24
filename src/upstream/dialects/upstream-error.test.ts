import { describe, expect, it } from 'vitest'
import { errorOfEvent, errorOfResponse, publicMessage } from './upstream-error.ts'

describe('publicMessage', () => {
  it.each([
    'request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it',
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    'temperature must be non-negative, got -1.0.',
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
    "[Errno 2] No such file or directory: '/mnt/a/b'",
    '<class TypeError>',
    '',
  ])('%j - is not shown', (text) => {
    expect(publicMessage(text)).toBeNull()
  })
})

describe('errorOfResponse', () => {
  it.each([
    [400, '{"error":{"message":"bad","type":"x","code":400}}', 'backend.invalid_argument'],
    [400, '{"error":"as a text"}', 'backend.invalid_argument'],
    [422, '{"detail":[{"msg":"JSON decode error"}]}', 'backend.invalid_argument'],
    [404, '{"detail":"Not Found"}', 'backend.invalid_argument'],
    [400, 'no JSON at all', 'backend.invalid_argument'],
    [401, '{}', 'backend.unknown'],
    [403, '{}', 'backend.unknown'],
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

describe('errorOfEvent', () => {
  it('an event that is none - null', () => {
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
