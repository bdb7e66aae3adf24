/** With API keys, the tenant decides which prompts share an engine's prefix cache, whatever the body says. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createKey, keysText } from '../../src/host/access/key-entry.ts'
import { jsonResponse } from '../upstream/transcripts.ts'
import { ask, engineServer, startGateway } from './gateway-kit.ts'
import type { ForwardEngineServer, Gateway } from './gateway-kit.ts'

const NOW = new Date('2030-01-01T00:00:00Z')
const ANSWER = jsonResponse(200, {
  id: 'x',
  choices: [{ index: 0, message: { role: 'assistant', content: 'a' } }],
  usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 },
})
const acme = createKey({ tenant: 'acme' }, NOW)
const other = createKey({ tenant: 'other' }, NOW)
const sharing = createKey({ tenant: 'other', sharesCache: true }, NOW)
const KEYS = keysText([acme.entry, other.entry, sharing.entry])

describe.each(['vllm', 'sglang', 'openai'])(
  'cache salts of tenants with %s in forward mode',
  (kind) => {
    let engine: ForwardEngineServer
    let keyed: Gateway
    let open: Gateway
    beforeAll(async () => {
      engine = await engineServer(() => ANSWER)
      const upstream = `${kind}+${engine.url}`
      keyed = await startGateway([], { upstream, keys: KEYS })
      open = await startGateway([], { upstream })
    })
    afterAll(async () => {
      await keyed?.close()
      await open?.close()
      await engine?.close()
    })

    async function sent(body: string, key: string | null): Promise<string> {
      const headers = key === null ? '' : `authorization: Bearer ${key}\r\n`
      const gateway = key === null ? open : keyed
      const { status } = await ask(gateway.port, '/v1/chat/completions', body, headers)
      expect(status).toBe(200)
      return Buffer.from(engine.asked.at(-1)?.body ?? '', 'latin1').toString()
    }
    const saltOf = async (body: string, key: string): Promise<unknown> =>
      (JSON.parse(await sent(body, key)) as Record<string, unknown>)['cache_salt']

    it('without keys - the body is forwarded unchanged', async () => {
      const body = '{"model":"m","cache_salt":"mine","extra_key":"too","messages":[]}'
      expect(await sent(body, null)).toBe(body)
    })

    it.runIf(kind === 'openai')(
      'a server without cache salts - the body is forwarded unchanged',
      async () => {
        const body = '{"model":"m","messages":[]}'
        expect(await sent(body, acme.text)).toBe(body)
      },
    )

    it.runIf(kind !== 'openai')('each tenant - has its own constant salt', async () => {
      const body = '{"model":"m", "messages":[] }'
      const salt = await saltOf(body, acme.text)
      expect(salt).toMatch(/^tenant acme/)
      expect(await saltOf(body, acme.text)).toBe(salt)
      expect(await saltOf(body, other.text)).toMatch(/^tenant other/)
      expect(await sent(body, acme.text)).toContain('"model":"m", "messages":[] ')
      expect(await sent(body, sharing.text)).toBe(body)
    })

    it.runIf(kind !== 'openai')(
      "a body with another tenant's salt - does not get that salt",
      async () => {
        const own = String(await saltOf('{"model":"m","messages":[]}', acme.text))
        for (const field of ['cache_salt', 'extra_key', 'cache\\u005fsalt']) {
          for (const value of [JSON.stringify(own), JSON.stringify([own])]) {
            const body = `{"model":"m","${field}":${value},"messages":[],"${field}":${value}}`
            for (const key of [other.text, sharing.text]) {
              const seen = await sent(body, key)
              const { cache_salt: salt, extra_key: extra } = JSON.parse(seen) as Record<
                string,
                unknown
              >
              expect(salt ?? '').not.toBe(own)
              expect(extra).toBeUndefined()
              expect(seen.match(/cache_salt/g) ?? []).toHaveLength(salt === undefined ? 0 : 1)
            }
          }
        }
      },
    )
  },
)
