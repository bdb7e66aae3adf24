import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createKey, keysText } from '../../src/host/access/key-entry.ts'
import { startServer } from '../running-server.ts'

/** SECURITY.md: keys never appear in a log, wherever a client puts them. */
describe('a key in a wrong header or field', () => {
  it('a key - is in no log line and is not used as a request id', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-keys-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { text, entry } = createKey({ tenant: 'acme', mayOperate: true }, new Date())
    const file = join(folder, 'keys.json')
    writeFileSync(file, keysText([entry]))
    const args = ['--engine', 'sim', '--aggregated', '1', '--in-process', '--keys', file]
    const server = await startServer([...args, '--log-level', 'debug'])
    onTestFinished(async () => void (await server.stop()))
    const send = (path: string, body: object | null, headers: Record<string, string> = {}) =>
      fetch(server.url + path, {
        method: body === null ? 'GET' : 'POST',
        headers: {
          authorization: `Bearer ${text}`,
          'content-type': 'application/json',
          ...headers,
        },
        ...(body === null ? {} : { body: JSON.stringify(body) }),
      })
    const prompt = { model: 'storyteller', prompt: text, max_tokens: 2 }
    for (const name of ['x-request-id', 'x-dynamo-request-id']) {
      expect((await send('/v1/completions', prompt, { [name]: text })).status).toBe(200)
    }
    expect((await send(`/v1/completions?api_key=${text}`, prompt)).status).toBe(200)
    expect((await send('/v1/completions', { ...prompt, user: text })).status).toBe(200)
    expect((await send('/v1/completions', { ...prompt, model: text })).status).toBe(404)
    expect((await send(`/${text}`, null, { authorization: '' })).status).toBe(401)
    expect((await send('/v1/models', null, { authorization: `Basic ${text}` })).status).toBe(401)
    const seen = await (await send('/debug/requests', null)).text()
    // The log is written to a pipe, which may be read after the reply.
    await expect.poll(() => server.printed().match(/call refused/g)).toHaveLength(2)
    await expect.poll(server.printed).toContain(`baton_${entry.id}_…`)
    for (const told of [server.printed(), seen]) expect(told).not.toContain(text)
  })
})
