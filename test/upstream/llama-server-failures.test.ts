/** The llama-server adapter: failures of the server and cancelled requests. */
import { describe, expect, it } from 'vitest'
import type { BatonError } from '../../src/base/index.ts'
import { RequestContext } from '../../src/engine/index.ts'
import { until } from '../until.ts'
import { chunksOf, requestOf, tokensOf } from './engine-kit.ts'
import { eventResponse } from './transcripts.ts'
import type { SeenRequest } from './transcripts.ts'
import { END, event, llamaServer, recorded } from './recorded-llama-server.ts'

describe('failures', () => {
  async function failureOf(
    complete: (request: SeenRequest) => Buffer | string | null,
  ): Promise<BatonError> {
    const { engine } = await llamaServer(complete)
    return await chunksOf(engine, requestOf()).then(
      () => {
        throw new Error('it did not fail')
      },
      (error: BatonError) => error,
    )
  }

  it("a recorded refusal - reports the limit with Baton's error code", async () => {
    const error = await failureOf(recorded('err_context'))
    expect(error.code).toBe('request.context_length_exceeded')
    expect(error.message).toContain('4096')
  })

  it('the connection ends during the answer - the request may migrate', async () => {
    const error = await failureOf(() => eventResponse([event([7])]))
    expect(error.code).toBe('transport.disconnected')
    expect(error.row.migratable).toBe(true)
  })

  it('an error during the stream - the request may migrate', async () => {
    const error = await failureOf(() =>
      eventResponse([event([7]), { error: { code: 500, message: 'at /srv/model.gguf' } }]),
    )
    expect(error.code).toBe('backend.engine_shutdown')
    expect(error.row.migratable).toBe(true)
    expect(error.message).not.toContain('/srv')
  })

  it('events that are not JSON - are skipped', async () => {
    const { engine } = await llamaServer(() =>
      eventResponse([': comment', 'data: {broken', event([7]), END]),
    )
    expect(tokensOf(await chunksOf(engine, requestOf()))).toEqual([7])
  })
})

describe('cancel', () => {
  it('a stop during generation - closes the connection to the server, and the stream ends as cancelled', async () => {
    let isClosed = false
    const { engine } = await llamaServer(({ socket }) => {
      socket.on('close', () => {
        isClosed = true
      })
      socket.write(eventResponse([event([7])]))
      return null
    })
    const request = requestOf({ stop: { maxTokens: 100 } })
    const context = new RequestContext(request.requestId)
    const seen: string[] = []
    for await (const chunk of engine.generate(request, context)) {
      seen.push(chunk.finish ?? String(chunk.tokenIds))
      context.stop()
    }
    expect(seen).toEqual(['7', 'cancelled'])
    await until('the server sees it', () => isClosed)
  })

  it('a stop before the request is sent - the server gets no request', async () => {
    const { engine, server } = await llamaServer(() => null)
    const request = requestOf()
    const context = new RequestContext(request.requestId)
    context.stop()
    const chunks = await chunksOf(engine, request, context)
    expect(chunks.map(({ finish }) => finish)).toEqual(['cancelled'])
    expect(server.seen.some(({ path }) => path === '/completion')).toBe(false)
  })

  it('a consumer that stops reading - closes the connection to the server', async () => {
    let isClosed = false
    const { engine } = await llamaServer(({ socket }) => {
      socket.on('close', () => {
        isClosed = true
      })
      socket.write(eventResponse([event([7]), event([8])]))
      return null
    })
    const request = requestOf({ stop: { maxTokens: 100 } })
    for await (const _ of engine.generate(request, new RequestContext('x'))) break
    await until('the server sees it', () => isClosed)
    expect(engine.isQuiescent()).toBe(true)
  })

  it('cleanup - ends all running requests', async () => {
    const { engine, server } = await llamaServer(() => null)
    const asked = chunksOf(engine, requestOf()).catch((error: BatonError) => error.code)
    await until('it is asked', () => server.seen.some(({ path }) => path === '/completion'))
    await engine.cleanup()
    expect(await asked).toBe('transport.disconnected')
  })
})
