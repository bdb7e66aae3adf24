import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'

/** Integers that a double cannot represent. */
const ODD = '9007199254740993'
const LONG = '12345678901234567890'
const LIMIT = '9223372036854775807'

/** Request bodies as text, because JavaScript numbers would be rounded before they are sent. */
describe('integers in schemas that a double cannot represent', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer(['--engine', 'sim', '--sim-speedup', '0'])
  })
  afterAll(async () => {
    await server.stop()
  })
  const post = async (path: string, fields: string): Promise<[number, string]> => {
    const response = await fetch(`${server.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `{"model":"storyteller",${fields}}`,
    })
    return [response.status, await response.text()]
  }
  const MESSAGES = '"messages":[{"role":"user","content":"hi"}]'
  const shape = (value: string): string =>
    `{"type":"object","properties":{"id":${value}},"required":["id"],"additionalProperties":false}`

  it('in a tool schema - reach the model with every digit', async () => {
    const parameters = shape(`{"type":"integer","enum":[${ODD},-${LONG}],"maximum":${LIMIT}}`)
    const annotated = '"stream":true,"nvext":{"annotations":["formatted_prompt"]}'
    const tool = `"tools":[{"type":"function","function":{"name":"f","parameters":${parameters}}}]`
    const [status, text] = await post(
      '/v1/chat/completions',
      `"max_tokens":1,${MESSAGES},${tool},${annotated}`,
    )
    expect(status).toBe(200)
    for (const digits of [ODD, `-${LONG}`, LIMIT]) expect(text).toContain(digits)
  })

  it('as const or enum - are returned exactly, in structured output and in a forced call', async () => {
    for (const value of [`{"const":${ODD}}`, `{"type":"integer","enum":[${ODD}]}`]) {
      const schema = shape(value)
      const format = `{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":${schema}}}`
      const asked: readonly (readonly [string, string])[] = [
        ['/v1/chat/completions', `${MESSAGES},"max_tokens":200,"response_format":${format}`],
        ['/v1/completions', `"prompt":"hi","max_tokens":200,"guided_json":${schema}`],
        [
          '/v1/completions',
          `"prompt":"hi","max_tokens":200,"guided_json":${JSON.stringify(schema)}`,
        ],
        [
          '/v1/chat/completions',
          `${MESSAGES},"max_tokens":200,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]`,
        ],
        [
          '/v1/responses',
          `"input":"hi","max_output_tokens":200,"text":{"format":{"type":"json_schema","name":"a","schema":${schema}}}`,
        ],
        [
          '/v1/responses',
          `"input":"hi","max_output_tokens":200,"tool_choice":"required","tools":[{"type":"function","name":"f","parameters":${schema}}]`,
        ],
        [
          '/v1/messages',
          `${MESSAGES},"max_tokens":200,"output_config":{"format":{"type":"json_schema","schema":${schema}}}`,
        ],
      ]
      for (const [path, fields] of asked) {
        const [status, text] = await post(path, fields)
        expect([path, status, text]).toEqual([path, 200, expect.stringContaining(ODD)])
      }
    }
  })

  it('as bounds - are accepted', async () => {
    const schema = shape(`{"type":"integer","maximum":${LIMIT}}`)
    const format = `{"type":"json_schema","json_schema":{"name":"a","schema":${schema}}}`
    const [status] = await post(
      '/v1/chat/completions',
      `${MESSAGES},"max_tokens":200,"response_format":${format}`,
    )
    expect(status).toBe(200)
  })
})
