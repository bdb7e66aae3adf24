import { describe, expect, it } from 'vitest'
import { BatonError } from './baton-error.ts'
import { loggedMessage } from './logged-message.ts'

const logged = (message: string) =>
  loggedMessage(new BatonError('request.invalid_argument', message))

describe('loggedMessage', () => {
  it.each([
    ['`tool_choice`: no tool is called "secret"', '`tool_choice`: no tool is called "…"'],
    ['content of type "a "secret" b" is not supported', 'content of type "…" is not supported'],
    ["parts of type 'secret' are not supported", 'parts of type "…" are not supported'],
    ["[{'msg': 'Field required', 'input': {'prompt': \"secret it's\"}}]", '[{"…"}}]'],
    [
      'unsupported parameter(s): `a secret sentence`, `nvext.x`',
      'unsupported parameter(s): `…`, `nvext.x`',
    ],
  ])('%s - quoted text is removed', (message, shown) => {
    expect(logged(message)).toBe(shown)
  })

  it.each([
    'The model `meta/llama-3.1:8b` does not exist.',
    '`messages[0].content[1]`: is missing',
    "This model's maximum context length is 4096 tokens. However, your prompt resulted in 5000 tokens.",
    'this key is limited to 10 requests per minute',
  ])('%s - names of fields and models and numbers stay', (message) => {
    expect(logged(message)).toBe(message)
  })

  it('an error of the server - keeps its text, which names paths and addresses', () => {
    const message = 'connect ECONNREFUSED "10.0.0.1:80"'
    expect(loggedMessage(new BatonError('backend.worker_unavailable', message))).toBe(message)
  })
})
