/** Forward mode with llama-servers that have a role: slots, slot files and failures. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../until.ts'
import { eventResponse, fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { FakeServer, SeenRequest } from '../upstream/transcripts.ts'
import { ask, post, startGateway } from './gateway-kit.ts'
import type { Gateway } from './gateway-kit.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end()
})

const CHAT = '/v1/chat/completions'
const CHUNK = eventResponse([
  { choices: [{ delta: { content: 'a' }, finish_reason: 'length' }] },
  '[DONE]',
])
const DECODED = jsonResponse(200, {
  choices: [{ message: { content: 'hi' } }],
  usage: { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 8 } },
})

type Answer = (request: SeenRequest) => Buffer | string | null

interface Pair {
  readonly folder: string
  readonly p: FakeServer
  readonly d: FakeServer
  readonly gateway: Gateway
}

/** Two servers with two slots each and one folder. Saving a slot creates a file, as real servers do. */
async function pair(prefill: Answer, decode: Answer, flags = {}): Promise<Pair> {
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-slots-'))
  open.push(() => rmSync(folder, { recursive: true }))
  const server = async (answer: Answer): Promise<FakeServer> => {
    const fake = await fakeServer((request) => {
      if (request.path === '/v1/models') return jsonResponse(200, { data: [{ id: 'm' }] })
      if (request.path === '/props') return jsonResponse(200, { total_slots: 2 })
      if (request.path === '/health') return jsonResponse(200, { status: 'ok' })
      const [, id, action] = /^\/slots\/(\d+)\?action=(\w+)$/.exec(request.path) ?? []
      if (id === undefined)
        return request.method === 'GET' ? jsonResponse(404, {}) : answer(request)
      const { filename } = JSON.parse(request.body) as { readonly filename: string }
      const place = path.join(folder, filename)
      if (action === 'save') {
        writeFileSync(place, 'kv')
        return jsonResponse(200, { id_slot: Number(id), filename, n_saved: 9 })
      }
      const isThere = existsSync(place)
      return isThere
        ? jsonResponse(200, { id_slot: Number(id), filename, n_restored: 9 })
        : jsonResponse(400, { error: { message: 'invalid slot save file' } })
    })
    open.push(() => fake.close())
    return fake
  }
  const p = await server(prefill)
  const d = await server(decode)
  const upstream = `prefill=llama-server+${p.url},decode=llama-server+${d.url}`
  const gateway = await startGateway([], { upstream, slotSavePath: folder, ...flags })
  open.push(() => gateway.close())
  return { folder, p, d, gateway }
}

const asked = ({ seen }: FakeServer): readonly string[] =>
  seen.filter(({ method }) => method === 'POST').map((each) => each.path)
const bodyOf = ({ seen }: FakeServer): string =>
  seen.find((each) => each.method === 'POST' && each.path.startsWith('/v1/'))?.body ?? ''

describe('llama-server', () => {
  it("both legs - prefill saves its slot, decode restores it and gets the client's bytes with the slot number", async () => {
    const { folder, p, d, gateway } = await pair(
      () => CHUNK,
      () => DECODED,
    )
    const body =
      '{"model":"m", "seed":12345678901234567890,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}'
    const answer = await ask(gateway.port, CHAT, body)
    expect([answer.status, JSON.parse(answer.body.toString())]).toMatchObject([
      200,
      { choices: [{}] },
    ])
    expect(asked(p)).toEqual([CHAT, '/slots/0?action=save'])
    expect(asked(d)).toEqual(['/slots/0?action=restore', CHAT])
    // Streamed, because only then does the server notice that the client has disconnected.
    expect(bodyOf(p)).toBe(
      `${body.replace(',"max_tokens":50', '').slice(0, -1)},"stream":true,"max_tokens":1,"id_slot":0,"cache_prompt":false}`,
    )
    expect(bodyOf(d)).toBe(`${body.slice(0, -1)},"id_slot":0,"cache_prompt":true}`)
    expect(readdirSync(folder)).toEqual([])
    const health = await (await fetch(`${gateway.url}/health`)).text()
    expect(health).toContain('KV was handed over in 1 of 1 decode legs')
  })

  it('another route, or n of 2 - is one request to the decode server', async () => {
    const { p, d, gateway } = await pair(
      () => CHUNK,
      () => DECODED,
    )
    for (const [route, body] of [
      ['/v1/messages', '{"model":"m","max_tokens":5,"messages":[]}'],
      [CHAT, '{"model":"m","n":2,"messages":[]}'],
    ] as const) {
      expect((await ask(gateway.port, route, body)).status).toBe(200)
    }
    expect([asked(p), asked(d)]).toEqual([[], ['/v1/messages', CHAT]])
  })

  it('prefill refuses - the client gets its refusal, and no slot stays occupied', async () => {
    const refusal = { error: { code: 400, message: 'too long', type: 'exceed_context_size_error' } }
    const { d, gateway, folder } = await pair(
      () => jsonResponse(400, refusal),
      () => DECODED,
    )
    for (let round = 0; round < 3; round++) {
      const { status, body } = await ask(gateway.port, CHAT, '{"model":"m","messages":[]}')
      expect([status, JSON.parse(body.toString())]).toEqual([400, refusal])
    }
    expect([asked(d), readdirSync(folder)]).toEqual([[], []])
  })

  it('a client that disconnects, in either leg - the server request is aborted and slots and files are released', async () => {
    let left = 0
    let isStuck: 'prefill' | 'decode' | null = 'prefill'
    const hangs: Answer = ({ socket }) => {
      socket.once('close', () => {
        left += 1
      })
      return null
    }
    const { folder, p, d, gateway } = await pair(
      (request) => (isStuck === 'prefill' ? hangs(request) : CHUNK),
      (request) => (isStuck === 'decode' ? hangs(request) : DECODED),
    )
    const body = '{"model":"m","messages":[]}'
    // One request more than there are slots.
    for (const leg of ['prefill', 'decode'] as const) {
      isStuck = leg
      for (let round = 0; round < 3; round++) {
        const before = left
        const socket = post(gateway.port, CHAT, body)
        const server = leg === 'prefill' ? p : d
        const calls = (): number => asked(server).filter((each) => each === CHAT).length
        await until('the server has it', () => calls() > round)
        socket.destroy()
        await until('the server request is aborted', () => left > before)
      }
    }
    isStuck = null
    expect((await ask(gateway.port, CHAT, body)).status).toBe(200)
    expect(readdirSync(folder)).toEqual([])
  })
})
