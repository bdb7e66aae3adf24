/** Forward mode: clients that disconnect or read slowly, limits, and metrics. */
import { describe, expect, it } from 'vitest'
import { until } from '../until.ts'
import { eventResponse, fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { FakeServer, SeenRequest } from '../upstream/transcripts.ts'
import { ask, post } from './gateway-kit.ts'
import {
  ASK,
  BOOKED,
  CHAT,
  STREAM_HEAD,
  WHOLE,
  chunk,
  closeAfterwards,
  engine,
  gatewayOf,
  idle,
  metricsOf,
} from './faulty-engines.ts'

describe('a client', () => {
  it('disconnects - the connection to the engine is closed at once, and no load stays reserved', async () => {
    let isClosed = false
    const slow = await engine((request) => {
      request.socket.on('close', () => (isClosed = true))
      request.socket.write(STREAM_HEAD + chunk('data: {"a":1}\n\n'))
      return null
    })
    const gateway = await gatewayOf([slow])
    const socket = post(gateway.port, CHAT, ASK)
    await new Promise((resolve) => socket.once('data', resolve))
    socket.destroy()
    await until('the connection to the engine is closed', () => isClosed)
    await idle(gateway)
  })

  it('disconnects before the first byte - same', async () => {
    let isClosed = false
    const slow = await engine((request) => {
      request.socket.on('close', () => (isClosed = true))
      return null
    })
    const gateway = await gatewayOf([slow])
    const socket = post(gateway.port, CHAT, ASK)
    await until('the engine is asked', () => slow.asked.length === 1)
    expect(await metricsOf(gateway)).toMatch(BOOKED)
    socket.destroy()
    await until('the connection to the engine is closed', () => isClosed)
    await idle(gateway)
  })

  it('reads slowly - slows the engine down by back-pressure, and gets everything', async () => {
    const event = `data: ${'x'.repeat(16_000)}\n\n`
    const count = 4000
    const sentTo: number[] = []
    const fast = await engine((request) => {
      const { socket } = request
      const reader = sentTo.push(0) - 1
      let sent = 0
      socket.write(STREAM_HEAD)
      const more = (): void => {
        while (sent < count) {
          sentTo[reader] = sent += 1
          if (!socket.write(chunk(event))) return void socket.once('drain', more)
        }
        socket.end('0\r\n\r\n')
      }
      more()
      return null
    })
    const gateway = await gatewayOf([fast])
    const socket = post(gateway.port, CHAT, ASK, 'connection: close\r\n')
    socket.pause()
    await until('the engine answers', () => (sentTo[0] ?? 0) > 0)
    // Another client that reads at full speed gets everything meanwhile.
    const whole = await ask(gateway.port, CHAT, ASK)
    expect(whole.body.length).toBeGreaterThan(count * (event.length - 8))
    expect(sentTo[1]).toBe(count)
    expect(sentTo[0]).toBeLessThan(count)
    let bytes = 0
    socket.on('data', (piece) => (bytes += piece.length))
    socket.resume()
    await new Promise((resolve) => socket.once('close', resolve))
    expect(bytes).toBeGreaterThan(count * event.length)
  })
})

describe('limits', () => {
  it.each([
    [99, 200],
    [100, 200],
    [101, 413],
  ])('a body of %i bytes with a limit of 100 - status %i', async (length, status) => {
    const gateway = await gatewayOf([await engine(() => WHOLE)], { bodyLimit: 100 })
    const body = '{"model":"m","x":""}'.replace('""', `"${'x'.repeat(length - 20)}"`)
    expect(Buffer.byteLength(body)).toBe(length)
    expect((await ask(gateway.port, CHAT, body)).status).toBe(status)
  })

  it('more requests than an engine may have - go to another engine, then are refused', async () => {
    const held: SeenRequest[] = []
    const hold = (request: SeenRequest): null => {
      held.push(request)
      return null
    }
    const gateway = await gatewayOf([await engine(hold), await engine(hold)], { engineRequests: 4 })
    const answers = Array.from({ length: 8 }, () => ask(gateway.port, CHAT, ASK))
    await until('all are there', () => held.length === 8)
    const refused = await ask(gateway.port, CHAT, ASK)
    expect([429, 503, 529]).toContain(refused.status)
    for (const { socket } of held) socket.end(WHOLE)
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200)
  })
})

describe('the batch size of an engine', () => {
  const held: SeenRequest[] = []
  const hold = (request: SeenRequest): null => {
    held.push(request)
    return null
  }
  const llamaServer = async (): Promise<FakeServer> => {
    const server = await fakeServer((request) => {
      const { method, path } = request
      if (path === '/v1/models') return jsonResponse(200, { data: [{ id: 'm' }] })
      if (path === '/health') return jsonResponse(200, {})
      if (path === '/props') return jsonResponse(200, { total_slots: 2 })
      return method === 'GET' ? undefined : hold(request)
    })
    closeAfterwards(server)
    return server
  }

  it.each([
    ['given', () => engine(hold), { engineMaxNumSeqs: 2 }],
    ['reported', llamaServer, {}],
  ])('%s - more requests than it and four wait in the router', async (_, open, flags) => {
    held.length = 0
    const gateway = await gatewayOf([await open()], flags)
    const answers = Array.from({ length: 10 }, () => ask(gateway.port, CHAT, ASK))
    await until('six are sent', () => held.length === 6)
    await until('the others wait', async () =>
      /^baton_frontend_router_queue_pending_requests\{.*\} 4$/m.test(await metricsOf(gateway)),
    )
    for (let ended = 0; ended < 10; ended++) {
      await until('the next one is sent', () => held.length > ended)
      expect(held.length).toBeLessThanOrEqual(ended + 6)
      held[ended]?.socket.end(WHOLE)
    }
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200)
  })
})

describe('metrics and routing of forwarded requests', () => {
  it('usage tokens, released load and the routing decision - are recorded', async () => {
    const usage = {
      prompt_tokens: 70,
      completion_tokens: 30,
      prompt_tokens_details: { cached_tokens: 64 },
    }
    const gateway = await gatewayOf([
      await engine(() => eventResponse([{ a: 1 }, { choices: [], usage }, '[DONE]'])),
    ])
    await ask(gateway.port, CHAT, ASK, 'x-request-id: call-1\r\n')
    await idle(gateway)
    const text = await metricsOf(gateway)
    expect(text).toMatch(/^baton_frontend_output_tokens_total\{.*\} 30$/m)
    expect(text).toMatch(/^baton_frontend_time_to_first_token_seconds_count\{.*\} 1$/m)
    const explained = await fetch(`${gateway.url}/debug/requests/call-1`)
    expect(explained.status).toBe(200)
    expect(JSON.stringify(await explained.json())).toContain('forwarded unchanged')
  })

  it('conversations with a common prefix - go to the engine that has seen it', async () => {
    const engines = await Promise.all([
      engine(() => WHOLE),
      engine(() => WHOLE),
      engine(() => WHOLE),
    ])
    const gateway = await gatewayOf(engines)
    const say = (who: string, turns: number): string =>
      JSON.stringify({
        model: 'm',
        messages: Array.from({ length: turns }, (_, turn) => ({
          role: turn % 2 === 0 ? 'user' : 'assistant',
          content: `${who} says in turn ${turn}: ${`${who} ${turn} `.repeat(200)}`,
        })),
      })
    const names = ['ann', 'bob', 'cleo', 'dan', 'eve', 'fay']
    for (let turns = 1; turns < 6; turns += 2) {
      for (const name of names) await ask(gateway.port, CHAT, say(name, turns))
    }
    for (const name of names) {
      const counts = engines.map(
        ({ asked }) => asked.filter(({ body }) => body.includes(`${name} says`)).length,
      )
      expect(counts.toSorted((left, right) => left - right)).toEqual([0, 0, 3])
    }
  })

  it('an endpoint that Baton does not implement - is forwarded to the engine', async () => {
    const only = await engine(() => WHOLE)
    const gateway = await gatewayOf([only])
    for (const path of ['/v1/audio/transcriptions', '/v1/rerank', '/score', '/v1/embeddings']) {
      expect((await ask(gateway.port, path, '{"model":"m"}')).status).toBe(200)
    }
    expect((await ask(gateway.port, '/release_memory_occupation', '{}')).status).toBe(404)
    expect(only.asked.map(({ path }) => path)).toEqual([
      '/v1/audio/transcriptions',
      '/v1/rerank',
      '/score',
      '/v1/embeddings',
    ])
  })

  it('multipart form data - is forwarded unchanged, without KV transfer fields', async () => {
    const only = await engine(() => WHOLE)
    const gateway = await gatewayOf([only])
    const part = (name: string, value: string): string =>
      `--XX\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
    const file =
      '--XX\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n\u0000--XX\u0001\r\n'
    const body = `${part('model', 'm')}${part('kv_transfer_params', '{}')}${file}${part('n', '1')}--XX--\r\n`
    const headers = 'content-type: multipart/form-data; boundary=XX\r\n'
    const answer = await ask(gateway.port, '/v1/audio/transcriptions', body, headers)
    expect(answer.status).toBe(200)
    expect(only.asked[0]?.body).toBe(`${part('model', 'm')}${file}${part('n', '1')}--XX--\r\n`)
  })
})
