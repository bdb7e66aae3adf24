import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'
import type { ApiKey } from './index.ts'
import { authentication } from './index.ts'

const KEYS: Readonly<Record<string, Partial<ApiKey>>> = {
  plain: {},
  operator: { mayOperate: true },
  router: { mayRoute: true },
  other: { tenant: 'other' },
  narrow: { models: ['another'] },
  wide: { models: ['another', 'storyteller'] },
  urgent: { priorityMax: 5 },
  prompt: { ttftTargetMs: 500, itlTargetMs: 20, mayRoute: true },
  sharing: { sharesCache: true },
  expired: { expiresAtEpochMs: 1 },
  slow: { requestsPerMinute: 1 },
  single: { concurrency: 1 },
}

function start(): ScriptedFrontend {
  const it_: ScriptedFrontend = new ScriptedFrontend({
    options: {
      middleware: [
        authentication({
          clock: { nowMs: () => 0, epochMs: () => 2, after: () => ({ cancel: () => undefined }) },
          keyOf: (text) =>
            Object.hasOwn(KEYS, text) ? { id: text, tenant: 'acme', ...KEYS[text] } : null,
        }),
      ],
    },
  })
  return it_
}

const by = (key: string) => ({ authorization: `Bearer ${key}` })

describe('keys', () => {
  it('a call without a key or with a wrong one - 401, and nothing runs', async () => {
    const it_ = start()
    for (const headers of [
      {},
      by('nobody'),
      by(''),
      { authorization: 'Basic plain' },
      by('expired'),
    ]) {
      const reply = await it_.chat({}, headers)
      expect([reply.status, reply.headers['www-authenticate']]).toEqual([401, 'Bearer'])
      expect(reply.json.error.type).toBe('authentication_error')
    }
    expect(it_.runs).toHaveLength(0)
    expect((await it_.post('/v1/messages', {})).json.type).toBe('error')
  })

  it('a key - is accepted in either header, and 401 has the format of each API', async () => {
    const it_ = start()
    expect((await it_.chat({}, by('plain'))).status).toBe(200)
    expect((await it_.chat({}, { authorization: 'bearer   plain ' })).status).toBe(200)
    expect((await it_.chat({}, { 'x-api-key': 'plain' })).status).toBe(200)
    expect((await it_.chat({}, { ...by('plain'), 'x-api-key': '' })).status).toBe(200)
    expect((await it_.chat({}, { authorization: '', 'x-api-key': 'plain' })).status).toBe(200)
    const basic = { authorization: 'Basic abc', 'x-api-key': 'plain' }
    expect((await it_.chat({}, basic)).status).toBe(200)
  })

  it.each([
    ['plain', 'other'],
    ['plain', 'nobody'],
    ['nobody', 'plain'],
  ])(
    'two different keys, %s and %s - 401 with the reason; the same key twice counts as one',
    async (a, b) => {
      const it_ = start()
      const reply = await it_.chat({}, { ...by(a), 'x-api-key': b })
      expect([reply.status, reply.json.error.message]).toEqual([
        401,
        expect.stringContaining('two different keys'),
      ])
      expect(it_.runs).toHaveLength(0)
      expect((await it_.chat({}, { ...by('plain'), 'x-api-key': 'plain' })).status).toBe(200)
      const open = await it_.send('GET', '/live', { headers: { ...by(a), 'x-api-key': b } })
      expect(open.status).toBe(200)
    },
  )

  it.each([
    '/metrics',
    '/debug/requests/x',
    '/debug/requests',
    '/docs',
    '/openapi.json',
    '/busy_threshold',
  ])("%s - 401 without a key, 403 without an operator's key", async (path) => {
    const status = async (headers: Record<string, string>) =>
      (await start().send('GET', path, { headers })).status
    expect([await status({}), await status(by('plain'))]).toEqual([401, 403])
    expect([200, 404]).toContain(await status(by('operator')))
  })

  it('/live, /ready, /health - are public, details are for an operator', async () => {
    const it_ = start()
    for (const path of ['/live', '/ready', '/health']) {
      expect((await it_.send('GET', path, {})).status).toBe(200)
    }
    const names = async (headers: Record<string, string>) =>
      Object.keys((await it_.send('GET', '/health', { headers })).json)
    expect(await names(by('plain'))).toEqual(['status', 'message'])
    expect(await names(by('operator'))).toContain('models')
  })

  it('models - only those of the key, everywhere', async () => {
    const it_ = start()
    expect((await it_.chat({}, by('wide'))).status).toBe(200)
    const refused = await it_.chat({}, by('narrow'))
    expect([refused.status, refused.json.error.type]).toEqual([403, 'permission_error'])
    const list = async (key: string) =>
      (await it_.send('GET', '/v1/models', { headers: by(key) })).json.data.length
    expect([await list('narrow'), await list('wide')]).toEqual([0, 1])
    for (const [method, path, body] of [
      ['GET', '/v1/models/storyteller', ''],
      ['GET', '/v1/models/storyteller/ready', ''],
      ['POST', '/tokenize', '{"prompt":"a"}'],
      ['POST', '/detokenize', '{"tokens":[300]}'],
      ['POST', '/v1/embeddings', '{"input":"a"}'],
      [
        'POST',
        '/v1/messages/count_tokens',
        '{"model":"storyteller","messages":[{"role":"user","content":"a"}]}',
      ],
    ] as const) {
      const reply = await it_.send(method, path, { headers: by('narrow'), body })
      expect([path, reply.status]).toEqual([path, 403])
    }
  })

  it('tenant and cache - are those of the key, whatever the client sends', async () => {
    const it_ = start()
    await it_.chat({}, { ...by('plain'), 'x-tenant-id': 'other' })
    await it_.chat({}, by('plain'))
    await it_.chat({}, by('other'))
    await it_.chat({ cache_salt: 'mine' }, by('plain'))
    await it_.chat({}, by('sharing'))
    const routing = it_.requests.map((request) => request.routing)
    expect(routing.map(({ tenantId }) => tenantId)).toEqual([
      'acme',
      'acme',
      'other',
      'acme',
      'acme',
    ])
    const salts = routing.map(({ cacheSalt }) => cacheSalt)
    expect(salts[4]).toBeUndefined()
    // A tenant that the client sends is a salt within the key's tenant.
    expect(new Set(salts).size).toBe(5)
    expect(salts.slice(0, 4).every((salt) => salt?.startsWith('tenant ') === true)).toBe(true)
    expect(it_.ends.map(({ tenantId }) => tenantId)[2]).toBe('other')
  })

  it('the salt of a key that shares its cache - does not open the cache of a tenant', async () => {
    const it_ = start()
    await it_.chat({}, by('plain'))
    const [first] = it_.requests
    const own = first?.routing.cacheSalt ?? ''
    expect(own).not.toBe('')
    await it_.chat({ cache_salt: own }, by('sharing'))
    await it_.chat({ nvext: { cache_salt: own } }, by('sharing'))
    await it_.chat({}, { ...by('sharing'), 'x-tenant-id': own.trim() })
    for (const { routing } of it_.requests.slice(1)) expect(routing.cacheSalt).not.toBe(own)
    // Keys that share their cache and send the same salt share prefixes.
    expect(it_.requests[1]?.routing.cacheSalt).toBe(it_.requests[2]?.routing.cacheSalt)
  })

  it('routing fields - are refused by name, unless the key allows them', async () => {
    const it_ = start()
    const nvext = { router: { temperature: 1 } }
    const refused = await it_.chat({ nvext }, by('plain'))
    expect([refused.status, refused.json.error.param]).toEqual([403, 'nvext.router'])
    expect((await it_.chat({ nvext }, by('router'))).status).toBe(200)
    expect((await it_.chat({}, { ...by('plain'), 'x-dp-rank': '0' })).status).toBe(403)
    expect((await it_.chat({ nvext: { extra_fields: ['worker_id'] } }, by('plain'))).status).toBe(
      403,
    )
    expect((await it_.chat({ nvext: { greed_sampling: true } }, by('plain'))).status).toBe(200)
    const decided = { ...by('router'), 'x-baton-decision': '1' }
    expect((await it_.chat({}, decided)).headers['x-baton-decision']).toBeUndefined()
  })

  it('goals - are those of the request, otherwise those of the key; a key without routing cannot set them', async () => {
    const it_ = start()
    await it_.chat({}, by('prompt'))
    await it_.chat({ nvext: { router: { ttft_target: 90 } } }, by('prompt'))
    expect(it_.requests.map(({ routing }) => routing.goals)).toEqual([
      { ttftMs: 500, itlMs: 20 },
      { ttftMs: 90, itlMs: 20 },
    ])
    expect(it_.ends[1]).toMatchObject({ ttftTargetMs: 90, itlTargetMs: 20 })
    const refused = await it_.chat({}, { ...by('plain'), 'x-baton-ttft-target-ms': '9' })
    expect([refused.status, refused.json.error.param]).toEqual([403, 'nvext.router'])
  })

  it("priority - up to the key's ceiling as requested, above it the ceiling", async () => {
    const it_ = start()
    for (const priority of [4, 5, 6]) {
      await it_.chat(
        { nvext: { agent_hints: { priority, strict_priority: priority } } },
        by('urgent'),
      )
    }
    expect(it_.requests.map(({ routing }) => [routing.priority, routing.strictPriority])).toEqual([
      [4, 4],
      [5, 5],
      [5, 5],
    ])
    const hints = { nvext: { agent_hints: { priority: 1 } } }
    expect((await it_.chat(hints, by('plain'))).status).toBe(403)
  })

  it('limits - 429 with Retry-After; a request that ended frees its place', async () => {
    const it_ = start()
    expect((await it_.chat({}, by('slow'))).status).toBe(200)
    const refused = await it_.chat({}, by('slow'))
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '60'])
    expect(refused.json.error.type).toBe('rate_limit_error')
    for (let i = 0; i < 3; i++) expect((await it_.chat({}, by('single'))).status).toBe(200)
    expect((await it_.chat({ model: 'nope' }, by('single'))).status).toBe(404)
    expect((await it_.chat({}, by('single'))).status).toBe(200)
  })

  it.each([
    ['/tokenize', { prompt: 'a' }],
    ['/v1/tokenize', { prompt: 'a' }],
    ['/detokenize', { tokens: [300] }],
    ['/v1/messages/count_tokens', { messages: [{ role: 'user', content: 'a' }] }],
    ['/v1/responses/input_tokens', { input: 'a' }],
    ['/v1/conversations', {}],
    ['/v1/files', {}],
    ['/v1/batches', {}],
  ])('%s - counts as a request of its key', async (path, body) => {
    const it_ = start()
    const ask = () => it_.post(path, { model: 'storyteller', ...body }, by('slow'))
    expect((await ask()).status).not.toBe(429)
    const refused = await ask()
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '60'])
    expect((await it_.chat({}, by('slow'))).status).toBe(429)
  })
})
