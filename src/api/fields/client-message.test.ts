import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import type { ErrorCode } from '../../base/index.ts'
import { anthropicErrorReply } from '../replies/anthropic-reply.ts'
import { clientMessage } from './client-message.ts'
import { errorEvent, errorReply } from '../replies/error-reply.ts'

function shown(message: string, code: ErrorCode = 'backend.unknown'): string {
  return clientMessage(new BatonError(code, message))
}

describe('clientMessage', () => {
  it.each([
    ["ENOENT: no such file or directory, open '/srv/my models/m.gguf'", /ENOENT.*open …$/],
    ['cannot read /srv/models/m.gguf: it ends too soon', /^cannot read …: it ends too soon$/],
    ['cannot read models/m.gguf', /^cannot read …$/],
    ['the file ../m.gguf is damaged', /^the file … is damaged$/],
    ['x failed (/srv/app/dist/engine.js:12:7)', /^x failed \(…\)$/],
    ['in file:///srv/app/main.js', /^in …$/],
    ['C:\\models\\m.gguf is gone', /^… is gone$/],
    ['no room in /dev/shm', /^no room in …$/],
    ['no connection to 10.0.0.7:4711 within 5 ms', /^no connection to … within 5 ms$/],
    ['no connection to gpu-7.internal:4711', /^no connection to …$/],
    ['no connection to worker within 5 ms', /^no connection to … within 5 ms$/],
    ['connect ECONNREFUSED 127.0.0.1:46855', /^connect ECONNREFUSED …$/],
    ['connect ECONNREFUSED ::1:46855', /^connect ECONNREFUSED …$/],
    ['connect EHOSTUNREACH fe80::7:12:46855', /^connect EHOSTUNREACH …$/],
    ['connect ETIMEDOUT [fd00::12]:80, then', /^connect ETIMEDOUT …, then$/],
    ['getaddrinfo ENOTFOUND gpu-7.internal', /^getaddrinfo ENOTFOUND …$/],
    ['room 5 of localhost:9000: gone', /^room 5 of …: gone$/],
    ['boom\n    at run (/srv/app/a.js:1:2)\n    at node:internal/x:3:4', /^boom$/],
  ])('%j - loses what tells of the server', (message, expected) => {
    expect(shown(message)).toMatch(expected)
  })

  it.each([
    'it broke',
    'no connection to worker 5020005632557109: the two processes have different shared secrets',
    'the engine violated the stream contract (usage-mismatch): says 3, streamed 4',
    'version 1.2.3 and 1.2.3.4.5, at 12:30:05',
    'see https://10.0.0.7:4711/a',
    'see https://example.org/a/b.json',
    '3/4 of the blocks, and/or none',
    'two lines\nat least',
  ])('%j - stays', (message) => {
    expect(shown(message)).toBe(message)
  })

  it('messages about the request itself - stay unchanged', () => {
    const message = 'Route not found: GET /srv/models/m.gguf'
    expect(shown(message, 'request.not_found')).toBe(message)
  })

  it('an endless message - is processed in linear time', () => {
    expect(shown(`${'a/'.repeat(50_000)}!`)).toHaveLength(100_001)
    expect(shown('/'.repeat(100_000))).toHaveLength(100_000)
    expect(shown('\n'.repeat(100_000))).toHaveLength(100_000)
    expect(shown('1.'.repeat(50_000))).toHaveLength(100_000)
    expect(shown(':'.repeat(100_000))).toHaveLength(100_000)
    expect(shown('[:'.repeat(50_000))).toHaveLength(100_000)
  })

  it('every reply format - contains this message', () => {
    const error = new BatonError(
      'backend.unknown',
      "open '/srv/secret' failed\n    at f (a.js:1:2)",
    )
    for (const text of [
      errorReply(error).body,
      errorEvent(error),
      anthropicErrorReply(error, 'id').body,
    ]) {
      expect(text).toContain('failed')
      expect(text).not.toMatch(/secret|a\.js/)
    }
  })
})
