import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createKey, keysText } from '../../src/host/access/key-entry.ts'
import { startServer } from '../running-server.ts'

/** SECURITY.md: stored responses and conversations belong to the tenant of the key. */
it('stored responses and conversations - another tenant, also an operator, gets 404 for each call', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-stored-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const made = [
    createKey({ tenant: 'acme' }, new Date()),
    createKey({ tenant: 'acme' }, new Date()),
    createKey({ tenant: 'other', mayOperate: true, mayRoute: true }, new Date()),
  ] as const
  const file = join(folder, 'keys.json')
  writeFileSync(file, keysText(made.map(({ entry }) => entry)))
  const server = await startServer(['--engine', 'sim', '--in-process', '--keys', file])
  onTestFinished(async () => void (await server.stop()))
  const [owner, colleague, stranger] = made.map(({ text }) => text)
  const call = (key: string | undefined, method: string, path: string, body?: object) =>
    fetch(server.url + path, {
      method,
      headers: { 'x-api-key': key ?? '', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const ask = { model: 'storyteller', input: 'a secret', max_output_tokens: 2 }
  const idOf = async (path: string, body: object) =>
    ((await (await call(owner, 'POST', path, body)).json()) as { id: string }).id
  const item = { type: 'message', role: 'user', content: 'a secret' }
  const response = `/v1/responses/${await idOf('/v1/responses', ask)}`
  const conversation = `/v1/conversations/${await idOf('/v1/conversations', { items: [item] })}`
  const nameIn = (path: string) => path.split('/').at(-1)

  for (const [method, path, body] of [
    ['GET', response],
    ['GET', `${response}/input_items`],
    ['POST', `${response}/cancel`],
    ['POST', '/v1/responses', { ...ask, previous_response_id: nameIn(response) }],
    ['DELETE', response],
    ['GET', conversation],
    ['POST', conversation, { metadata: {} }],
    ['GET', `${conversation}/items`],
    ['POST', `${conversation}/items`, { items: [item] }],
    ['POST', '/v1/responses', { ...ask, conversation: nameIn(conversation) }],
    ['DELETE', conversation],
  ] as const) {
    const reply = await call(stranger, method, path, body)
    expect([method, path, reply.status]).toEqual([method, path, 404])
    expect(await reply.text()).not.toContain('secret')
  }
  for (const path of [response, conversation])
    expect((await call(colleague, 'GET', path)).status).toBe(200)
})
