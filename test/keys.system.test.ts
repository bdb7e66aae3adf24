import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { BatonsInTurn } from './in-turn.ts'
import { runBaton, startServer } from './running-server.ts'
import { until } from './until.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

const folder = mkdtempSync(join(tmpdir(), 'baton-keys-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const file = join(folder, 'keys.json')

async function addKey(...terms: string[]): Promise<string> {
  const { exitCode, printed } = await runBaton(['keys', 'add', '--file', file, ...terms])
  expect(exitCode).toBe(0)
  return /^baton_[a-z0-9]{8}_\S{43}$/m.exec(printed)?.[0] ?? ''
}

const idOf = (key: string): string => key.split('_')[1] ?? ''

describe('baton keys', () => {
  it('a key - is created, used, listed and revoked while the server runs', async () => {
    const key = await addKey('--tenant', 'acme', '--models', 'storyteller')
    expect(readFileSync(file, 'utf8')).not.toContain(key)
    expect(statSync(file).mode & 0o077).toBe(0)
    const args = ['--engine', 'sim', '--in-process', '--keys', file, '--log-level', 'debug']
    const server = await startServer(args)
    const status = async (authorization: string, path = '/v1/models') =>
      (await fetch(`${server.url}${path}`, { headers: { authorization } })).status
    try {
      expect([await status(''), await status('Bearer x'), await status(`Bearer ${key}`)]).toEqual([
        401, 401, 200,
      ])
      expect(await status(`Bearer ${key}`, '/metrics')).toBe(403)
      // At the lowest log level no prompt is logged, neither of a request that ran nor of one that was refused.
      for (const [path, body] of [
        ['/v1/completions', { prompt: 'tell nobody', max_tokens: 2 }],
        ['/v1/completions', { prompt: 'tell nobody', max_tokens: 'tell nobody' }],
        ['/v1/chat/completions', { messages: [{ role: 'tell nobody', content: 'tell nobody' }] }],
        ['/v1/messages', { model: 'tell nobody', messages: 'tell nobody' }],
        ['/v1/chat/completions', { messages: [], tool_choice: 'tell nobody', tools: [] }],
        [
          '/v1/chat/completions',
          { messages: [{ role: 'user', content: [{ type: 'tell nobody' }] }] },
        ],
        ['/v1/completions', { prompt: 'x', guided_json: { type: 'tell nobody' } }],
        ['/v1/completions', { 'tell nobody': 'x' }],
        ['/v1/completions', '{"prompt":"tell nobody"}}'],
        ['/v1/completions', '{"prompt":"tell nobody" "'],
      ] as const) {
        const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
        const text = typeof body === 'string' ? body : JSON.stringify(body)
        const init = { method: 'POST', headers, body: text }
        expect([200, 400, 403, 404]).toContain((await fetch(server.url + path, init)).status)
      }
      const operator = await addKey('--tenant', 'ops', '--operator')
      await until(
        'the new key opens',
        async () => (await status(`Bearer ${operator}`, '/metrics')) === 200,
      )
      await fetch(`${server.url}/busy_threshold`, {
        method: 'POST',
        headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/json' },
        body: '{}',
      })
      // The log is written to a pipe, which may be read after the reply.
      const audited = (): readonly Record<string, unknown>[] =>
        server
          .printed()
          .split('\n')
          .filter((line) => /call refused|administrative call/.test(line))
          .map((line) => JSON.parse(line) as Record<string, unknown>)
      const by = { remoteAddress: '127.0.0.1', requestId: expect.any(String) }
      for (const line of [
        { ...by, msg: 'call refused', path: '/v1/models', status: 401 },
        {
          ...by,
          msg: 'call refused',
          path: '/metrics',
          status: 403,
          keyId: idOf(key),
          tenantId: 'acme',
        },
        {
          ...by,
          msg: 'administrative call',
          keyId: idOf(operator),
          tenantId: 'ops',
          method: 'POST',
        },
      ])
        await expect.poll(audited).toContainEqual(expect.objectContaining(line))
      const list = await runBaton(['keys', 'list', '--file', file])
      expect(list.printed).toMatch(new RegExp(`${idOf(key)} +acme +valid`))
      expect(list.printed).not.toContain(key)
      await runBaton(['keys', 'revoke', '--file', file, idOf(key)])
      await until('the revoked key is refused', async () => (await status(`Bearer ${key}`)) === 401)
      const explained = await runBaton(['explain', 'none', '--url', server.url], {
        BATON_API_KEY: operator,
      })
      expect(explained.printed).not.toContain('key')
      await expect.poll(server.printed).toContain('"level":20')
      expect(server.printed()).not.toContain(key)
      expect(server.printed()).not.toContain('tell nobody')
    } finally {
      await server.stop()
    }
  })

  it('a key file that everybody may write - is reported at the start, with the command that mends it', async () => {
    const open = join(folder, 'open.json')
    writeFileSync(open, readFileSync(file), { mode: 0o600 })
    const warnings = async (): Promise<readonly string[]> => {
      const server = await startServer(['--engine', 'sim', '--in-process', '--keys', open])
      await server.stop()
      return server.printed().match(/^.*chmod.*$/gm) ?? []
    }
    expect(await warnings()).toEqual([])
    chmodSync(open, 0o666)
    const [line = '', ...more] = await warnings()
    expect(more).toEqual([])
    expect(line).toContain(`chmod 600 ${open}`)
  })

  it.each([
    [['serve', '--engine', 'sim', '--host', '0.0.0.0', '--port', '0'], '--insecure-open'],
    [['serve', '--engine', 'sim', '--port', '0', '--keys', join(folder, 'none')], 'cannot be read'],
    [['serve', '--engine', 'sim', '--port', '0', '--keys', '{"keys":5}'], '--keys: keys'],
    [['keys', 'add', '--file', file, '--tenant', 'x', '--rate', '0'], '--rate'],
    [['keys', 'add', '--file', file, '--tenant', ' '], '--tenant'],
    [['keys', 'revoke', '--file', file, 'nothere1'], 'no key nothere1'],
    [['keys', 'list', '--file', join(folder, 'none')], 'cannot be read'],
  ])('%j - is refused in one sentence', async (args, sentence) => {
    const { exitCode, printed } = await batons.run(args)
    expect([exitCode, printed]).toEqual([2, expect.stringContaining(sentence)])
    expect(printed).toMatch(/^baton: [^\n]+\n$/)
  })
})
