import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { osClock } from '../../src/os/index.ts'
import { createDialect } from '../../src/upstream/dialects/dialect-table.ts'
import { clearCache, parseUpstreamUrl, UpstreamClient } from '../../src/upstream/index.ts'
import type { UpstreamKind } from '../../src/upstream/index.ts'
import { engineServer, startGateway } from '../forward/gateway-kit.ts'
import { runBaton, startServer } from '../running-server.ts'
import { fakeServer, jsonResponse } from '../upstream/transcripts.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

const LONG = Array.from({ length: 200 }, (_, i) => `word${i}`).join(' ')

async function post(url: string, path: string, body?: object, headers: object = {}) {
  const reply = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: reply.status, json: (await reply.json()) as Record<string, unknown[]> }
}

interface Usage {
  readonly prompt_tokens_details?: { readonly cached_tokens?: number }
}

async function cachedTokens(url: string): Promise<number> {
  const { json } = await post(url, '/v1/completions', { prompt: LONG, max_tokens: 1 })
  return (json['usage'] as unknown as Usage).prompt_tokens_details?.cached_tokens ?? 0
}

describe('clearing the KV cache of a fleet', () => {
  it('/clear_kv_blocks and its aliases - every worker reports its result, and no block is cached any more', async () => {
    const server = await startServer(['--engine', 'sim', '--sim-speedup', '0', '--in-process'])
    open.push(() => server.stop())
    for (const path of ['/clear_kv_blocks', '/reset_prefix_cache', '/flush_cache']) {
      await cachedTokens(server.url)
      expect(await cachedTokens(server.url)).toBeGreaterThan(100)
      const { status, json } = await post(server.url, path)
      expect([status, json['failed_workers']]).toEqual([200, []])
      expect(json['cleared_workers']).toHaveLength(2)
      expect(json['cleared_workers']?.[0]).toMatchObject({
        status: 'Successfully cleared kv blocks for instance',
        response: { status: 'ok' },
      })
      expect(await cachedTokens(server.url)).toBe(0)
      expect((await post(server.url, path, { worker_id: 1 })).status).toBe(404)
      expect((await post(server.url, path, { model: 'nobody' })).status).toBe(404)
      expect((await post(server.url, path, { bogus: 1 })).status).toBe(400)
    }
  })

  it('with keys - requires an operator key', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'baton-clear-'))
    open.push(() => rmSync(dir, { recursive: true }))
    const file = join(dir, 'keys.json')
    const key = async (...more: string[]): Promise<string> => {
      const added = await runBaton(['keys', 'add', '--file', file, '--tenant', 'a', ...more])
      return /^baton_\S+$/m.exec(added.printed)?.[0] ?? ''
    }
    const [plain, operator] = [await key(), await key('--operator')]
    const server = await startServer(['--engine', 'sim', '--in-process', '--keys', file])
    open.push(() => server.stop())
    const status = async (authorization?: string) =>
      (await post(server.url, '/clear_kv_blocks', {}, authorization ? { authorization } : {}))
        .status
    expect([
      await status(),
      await status(`Bearer ${plain}`),
      await status(`Bearer ${operator}`),
    ]).toEqual([401, 403, 200])
  })

  it('upstreams - one that cannot clear its cache is reported with the status that clients expect', async () => {
    const server = await engineServer(() => jsonResponse(200, {}))
    const gateway = await startGateway([server])
    open.push(
      () => gateway.close(),
      () => server.close(),
    )
    const failed = [{ code: 'runtime.not_implemented' }]
    expect(await post(gateway.url, '/clear_kv_blocks')).toMatchObject({
      status: 200,
      json: { cleared_workers: [], failed_workers: failed },
    })
    expect(await post(gateway.url, '/reset_prefix_cache')).toMatchObject({ status: 502 })
  })
})

describe('request sent to each kind of upstream', () => {
  const slots = [{ id: 0 }, { id: 1 }]
  it.each<[UpstreamKind, readonly string[], unknown]>([
    ['vllm', ['POST /reset_prefix_cache'], { status: 'ok' }],
    ['sglang', ['POST /flush_cache'], { status: 'ok' }],
    [
      'llama-server',
      ['GET /slots', 'POST /slots/0?action=erase', 'POST /slots/1?action=erase'],
      { erased_slots: 2 },
    ],
  ])('%s', async (kind, expected, answer) => {
    let isThere = true
    const server = await fakeServer(({ path }) =>
      isThere ? jsonResponse(200, path === '/slots' ? slots : {}) : undefined,
    )
    const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
    open.push(
      () => server.close(),
      () => client.close(),
    )
    const dialect = await createDialect(kind, { mode: 'agg', clock: osClock })
    expect(await clearCache(client, dialect)).toEqual(answer)
    expect(server.seen.map(({ method, path }) => `${method} ${path}`)).toEqual(expected)
    isThere = false
    await expect(clearCache(client, dialect)).rejects.toMatchObject({
      code: 'runtime.not_implemented',
    })
  })
})
