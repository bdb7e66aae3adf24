/** Forward mode of a sidecar worker, over the wire protocol. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startBaton } from '../running-server.ts'
import { until } from '../until.ts'
import { eventResponse, jsonResponse } from '../upstream/transcripts.ts'
import type { SeenRequest } from '../upstream/transcripts.ts'
import { ask, engineServer, post } from './gateway-kit.ts'
import type { ForwardEngineServer } from './gateway-kit.ts'

const CHAT = '/v1/chat/completions'
const STREAM = eventResponse([
  ': keepalive 1/1',
  { a: 'ü' },
  { b: 1, usage: { prompt_tokens: 5, completion_tokens: 3 } },
])
const bodyOf = (text: string): string => text.slice(text.indexOf('\r\n\r\n') + 4)

describe('a sidecar worker in forward mode with a separate frontend', () => {
  let engine: ForwardEngineServer
  let port: number
  let worker: Awaited<ReturnType<typeof startBaton>>
  let answer: (request: SeenRequest) => Buffer | string | null = () => null
  const ends: (() => unknown)[] = []

  beforeAll(async () => {
    engine = await engineServer((request) => answer(request))
    ends.push(() => engine.close())
    const folder = mkdtempSync(path.join(tmpdir(), 'baton-fleet-'))
    ends.push(() => rmSync(folder, { recursive: true, force: true }))
    const fleet = ['--discovery-dir', folder]
    worker = await startBaton(
      ['worker', '--engine', 'openai', '--engine-url', engine.url, '--forward', ...fleet],
      /"kind":"ready"/,
    )
    ends.push(() => worker.process.kill('SIGKILL'))
    const frontend = await startBaton(['frontend', '--port', '0', ...fleet], /http:\/\/[\d.]+:\d+/)
    ends.push(() => frontend.process.kill('SIGKILL'))
    port = Number(/http:\/\/[\d.]+:(\d+)/.exec(frontend.printed())?.[1])
    await until(
      'it serves',
      async () => (await fetch(`http://127.0.0.1:${port}/ready`)).status === 200,
    )
  })
  afterAll(async () => {
    for (const end of ends.toReversed()) await end()
  })

  it('a whole answer - request and answer are forwarded byte by byte', async () => {
    const whole = jsonResponse(200, {
      text: 'Grüße',
      usage: { prompt_tokens: 7, completion_tokens: 3 },
    })
    answer = () => whole
    const body =
      '{"zeta":1.50, "seed":12345678901234567890,"model":"m","messages":[{"content":"ü"}],"x":1e400,"kv_transfer_params":{}}'
    const seen = await ask(port, CHAT, body)
    expect([seen.status, seen.body.toString()]).toEqual([200, bodyOf(whole)])
    const sent = Buffer.from(engine.asked.at(-1)?.body ?? '', 'latin1').toString()
    expect(sent).toBe(body.replace(',"kv_transfer_params":{}', ''))
    expect(engine.asked.at(-1)?.headers['x-request-id']).toBeDefined()
  })

  it('a stream - is returned unchanged and its usage is counted', async () => {
    answer = () => STREAM
    const seen = await ask(port, CHAT, '{"model":"m","stream":true,"messages":[]}')
    expect(seen.head).toMatch(/content-type: text\/event-stream/i)
    expect([seen.body.toString(), seen.isCutOff]).toEqual([bodyOf(STREAM), false])
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    expect(metrics).toMatch(/^baton_frontend_output_tokens_total\{.*\} 6$/m)
  })

  it("an error response - is returned unchanged, one with paths is replaced by Baton's text", async () => {
    answer = () => jsonResponse(422, { detail: [{ msg: 'Field required' }] })
    const shown = await ask(port, CHAT, '{"model":"m","messages":[]}')
    expect([shown.status, shown.body.toString()]).toEqual([
      422,
      '{"detail":[{"msg":"Field required"}]}',
    ])
    answer = () => jsonResponse(400, { error: { message: "No such file: '/srv/x/y.json'" } })
    const hidden = await ask(port, CHAT, '{"model":"m","messages":[]}')
    expect(hidden.status).toBe(400)
    expect(hidden.body.toString()).not.toContain('/srv')
  })

  it('the engine fails during a stream - whole events, then an error event of the called API', async () => {
    answer = ({ socket }) => {
      const text = eventResponse([{ a: 1 }, { error: { message: 'see /srv/x/y.py' } }])
      socket.write(`${text}data: {"half`)
      setTimeout(() => socket.resetAndDestroy(), 20)
      return null
    }
    const seen = (
      await ask(port, CHAT, '{"model":"m","stream":true,"messages":[]}')
    ).body.toString()
    expect(seen).toContain('data: {"a":1}\n\n')
    expect(seen).toContain('"error"')
    expect(seen).not.toMatch(/srv|half/)
  })

  it('a client that disconnects - the engine request is aborted at once', async () => {
    let isLeft = false
    answer = ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n')
      socket.once('close', () => {
        isLeft = true
      })
      return null
    }
    const client = post(port, CHAT, '{"model":"m","stream":true,"messages":[]}')
    await new Promise((resolve) => {
      client.once('data', resolve)
    })
    client.destroy()
    await until('the engine request is aborted', () => isLeft)
  })

  it('data larger than all buffers - arrives complete and in order', async () => {
    const lines = Array.from(
      { length: 20_000 },
      (_, i) => `data: ${i} ${'x'.repeat(100)}\n\n`,
    ).join('')
    answer = () =>
      `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n${lines}`
    const seen = await ask(port, CHAT, '{"model":"m","stream":true,"messages":[]}')
    expect(seen.body.toString() === lines).toBe(true)
  })

  it('an endpoint that Baton does not implement - is forwarded to the engine', async () => {
    answer = () => jsonResponse(200, { ok: true })
    const seen = await ask(port, '/v1/audio/speech', '{"model":"m","input":"a"}')
    expect(seen.body.toString()).toBe('{"ok":true}')
    expect(engine.asked.at(-1)?.path).toBe('/v1/audio/speech')
  })

  it('the engine is gone - the worker ends, says why, and its supervisor starts it again', async () => {
    await engine.close()
    await until('the worker has ended', () => worker.process.exitCode !== null)
    expect(worker.process.exitCode).toBe(1)
    expect(worker.printed()).toContain(`baton: the engine at ${engine.url} is lost`)
  })
})
