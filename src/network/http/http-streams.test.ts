/** Streamed replies of the HTTP server: chunks, disconnects, and clients that read slowly. */
import { readFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { rawExchange, serve, streamOf, text, url } from '../../../test/network/http-trial.ts'
import { until } from '../../../test/until.ts'
import type { CancelSignal } from '../../base/index.ts'
import type { StreamWriter } from '../../frontend/index.ts'

describe('streams of the http server', () => {
  it('streams - replies to pipelined requests are complete and in order', async () => {
    const writers: StreamWriter[] = []
    const trial = await serve(async () => streamOf((writer) => void writers.push(writer)))
    const exchange = rawExchange(
      trial.server.port,
      'GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
    )
    await until('both streams are open', () => writers.length === 2)
    // The second is written first, and has to wait for the first.
    const named = writers.map((writer, at) => [writer, at + 1] as const)
    for (const [writer, name] of named.reverse()) {
      writer.write(`begin ${name};`, true)
      writer.writeNow?.(`now ${name};`)
      writer.write(`é ${name};`, false)
      writer.end()
    }
    const answer = await exchange
    const shown = answer
      .split('\r\n')
      .filter((line) => line.includes(';'))
      .join('')
    expect(Buffer.from(shown, 'latin1').toString()).toBe('begin 1;now 1;é 1;begin 2;now 2;é 2;')
    expect(answer.match(/HTTP\/1\.1 200/g)).toHaveLength(2)
  })

  it('stream - text written in many turns arrives complete, ASCII and other', async () => {
    const pieces = ['one ', 'two ', 'drei ü ', '四 🎉 ', 'five']
    const trial = await serve(async () =>
      streamOf((writer) => {
        let next = 0
        const tick = (): void => {
          const piece = pieces[next++]
          if (piece === undefined) return writer.end()
          writer.write(piece, /^[ -~]*$/.test(piece))
          setImmediate(tick)
        }
        tick()
      }),
    )
    expect(await (await fetch(url(trial))).text()).toBe(pieces.join(''))
  })

  it('stream - a client that pauses and reads on gets all events in order', async () => {
    const filling = `${'.'.repeat(3_000)}\n`
    let count = 0
    let isFull = false
    const trial = await serve(async () =>
      streamOf((writer) => {
        const tick = (): void => {
          if (writer.flow?.isFull === true) isFull = true
          // Writes continue for a while after the client reads again.
          if (isFull && socket.isPaused() === false && count % 100 === 0) return writer.end()
          if (!isFull || socket.isPaused() === false)
            writer.write(`event ${(count += 1)}\n${filling}`, true)
          setImmediate(tick)
        }
        tick()
      }),
    )
    const socket = connect(trial.server.port, '127.0.0.1')
    let answer = ''
    socket.on('data', (bytes) => (answer += bytes.toString('latin1')))
    socket.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    socket.pause()
    await until('the queue is full', () => isFull)
    socket.resume()
    await until('the stream has ended', () => socket.readableEnded)
    const events = answer.split('\n').filter((line) => line.startsWith('event '))
    expect(events).toEqual(Array.from({ length: count }, (_, at) => `event ${at + 1}`))
  })

  it('stream - HEAD gets the head at once, and what would be streamed is released', async () => {
    const signals: CancelSignal[] = []
    let isOpened = false
    const trial = await serve(async (request) => {
      signals.push(request.signal)
      return streamOf(() => (isOpened = true))
    })
    const answer = await rawExchange(
      trial.server.port,
      'HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
    )
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n$/)
    expect([isOpened, signals[0]?.aborted]).toEqual([false, true])
    await expect.poll(() => trial.server.requestsActive).toBe(0)
  })

  it('stream - text written in one turn is sent as one chunk', async () => {
    const trial = await serve(async () =>
      streamOf((writer) => {
        setImmediate(() => {
          for (const piece of ['a', 'b', 'c']) writer.write(piece, true)
          writer.end()
        })
      }),
    )
    const answer = await rawExchange(
      trial.server.port,
      'GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
    )
    expect(answer).toContain('\r\n3\r\nabc\r\n0\r\n')
  })

  it('stream - a client that disconnects aborts the signal; later writes are ignored', async () => {
    let gone: CancelSignal | null = null
    let writer: StreamWriter | null = null
    const trial = await serve(async (request) => {
      gone = request.signal
      return streamOf((opened) => {
        writer = opened
        opened.write('first', true)
      })
    })
    const leave = new AbortController()
    const reply = await fetch(url(trial), { signal: leave.signal })
    await reply.body?.getReader().read()
    leave.abort()
    await expect.poll(() => gone?.aborted).toBe(true)
    const opened = writer as StreamWriter | null
    opened?.write('more', true)
    opened?.end()
    await expect.poll(() => trial.server.requestsActive).toBe(0)
    expect(trial.faults).toEqual([])
  })

  it('streams - a client that disconnects aborts all its pipelined requests', async () => {
    const signals: CancelSignal[] = []
    const trial = await serve(async (request) => {
      signals.push(request.signal)
      return streamOf((writer) => writer.write('begun', true))
    })
    const socket = connect(trial.server.port, '127.0.0.1')
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(20))
    await until('all have begun', () => signals.length === 20)
    socket.destroy()
    await until('the first is aborted', () => signals[0]?.aborted === true)
    await until('none is active', () => trial.server.requestsActive === 0)
    expect(signals.map(({ aborted }) => aborted)).toEqual(signals.map(() => true))
  })

  it('stream - one that is given up ends with an error over HTTP/2, not as if it was complete', async () => {
    const pem = (name: string): string =>
      readFileSync(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url), 'utf8')
    const trial = await serve(
      async () =>
        streamOf((writer) => {
          writer.write('begun', true)
          setImmediate(() => writer.flow?.abort())
        }),
      { tls: { cert: pem('fleet.pem'), key: pem('fleet.key') } },
    )
    const session = connectHttp2(`https://127.0.0.1:${trial.server.port}`, {
      rejectUnauthorized: false,
    })
    const error = await new Promise<Error | null>((resolve) => {
      const stream = session.request({ ':path': '/' })
      stream.on('error', resolve)
      stream.on('close', () => resolve(null))
      stream.resume()
    })
    session.destroy()
    expect(error?.message).toContain('INTERNAL_ERROR')
  })

  it('stream - a client that does not read is disconnected at the buffer limit', async () => {
    let aborted = false
    let reason: unknown
    const trial = await serve(
      async (request) => {
        request.signal.addEventListener('abort', () => {
          aborted = true
          reason = request.signal.reason
        })
        return streamOf((writer) => {
          const tick = (): void => {
            if (aborted) return
            writer.write('x'.repeat(65_536), true)
            setImmediate(tick)
          }
          tick()
        })
      },
      { bufferedBytesMax: 300_000 },
    )
    const socket = connect(trial.server.port, '127.0.0.1')
    socket.on('error', () => socket.destroy())
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    socket.pause()
    await expect.poll(() => aborted).toBe(true)
    expect(reason).toBe('the client read too slowly: its reply was cut')
    expect(trial.slowReaders).toEqual([
      {
        requestId: 'r1',
        unsentBytes: expect.any(Number),
        limit: 'bufferedBytesMax',
        limitBytes: 300_000,
      },
    ])
    socket.destroy()
  })

  it.each([
    ['streamed', 'bufferedBytesMax'],
    ['whole', 'unsentBytesMax'],
  ])(
    'a pipelined reply above a limit (%s) - the connection is closed, although an earlier reply is not sent yet',
    async (shape, limit) => {
      const trial = await serve(
        async ({ path }) => {
          if (path === '/first') return streamOf((writer) => writer.write('begun', true))
          const long = 'x'.repeat(3_000_000)
          if (shape === 'whole') return text(long)
          return streamOf((writer) => {
            writer.write(long, true)
            setImmediate(() => writer.write('more', true))
          })
        },
        { bufferedBytesMax: 300_000, unsentBytesMax: 2_000_000 },
      )
      const socket = connect(trial.server.port, '127.0.0.1')
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.on('error', () => undefined)
      socket.on('data', () => undefined)
      const request = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`
      socket.write(request('/first') + request('/second').repeat(3))
      await closed
      expect(trial.slowReaders[0]).toMatchObject({ limit })
      await until('none is active', () => trial.server.requestsActive === 0)
    },
  )

  it('stream - without a limit of its own, a client is disconnected at 4 MiB', async () => {
    const pieceBytes = 65_536
    const trial = await serve(
      async ({ signal }) =>
        streamOf((writer) => {
          const tick = (): void => {
            if (signal.aborted) return
            writer.write('x'.repeat(pieceBytes), true)
            setImmediate(tick)
          }
          tick()
        }),
      { hasDefaultStreamLimits: true },
    )
    const socket = connect(trial.server.port, '127.0.0.1')
    socket.on('error', () => socket.destroy())
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    socket.pause()
    await expect.poll(() => trial.slowReaders.length).toBe(1)
    const [reader] = trial.slowReaders
    expect(reader).toMatchObject({ limit: 'bufferedBytesMax', limitBytes: 4_194_304 })
    expect(reader?.unsentBytes).toBeGreaterThan(4_194_304)
    expect(reader?.unsentBytes).toBeLessThan(4_194_304 + 3 * pieceBytes)
    socket.destroy()
  })

  it('more than the limit at once - a client that reads gets it', async () => {
    const long = 'x'.repeat(3_000_000)
    const trial = await serve(
      async () =>
        streamOf((writer) => {
          writer.write(long, true)
          writer.end()
        }),
      { bufferedBytesMax: 300_000 },
    )
    const response = await fetch(url(trial))
    expect((await response.text()).length).toBe(long.length)
    expect(trial.slowReaders).toEqual([])
  })

  it('many clients that do not read - the slowest are disconnected at their common limit', async () => {
    const piece = 'x'.repeat(65_536)
    const ended: string[] = []
    const trial = await serve(
      async (request) => {
        let isGone = false
        request.signal.addEventListener('abort', () => {
          isGone = true
          ended.push(request.path)
        })
        return streamOf((writer) => {
          // One of them gets a third of the text of the others.
          let left = request.path === '/small' ? 80 : 240
          const tick = (): void => {
            if (isGone || left-- === 0) return
            writer.write(piece, true)
            setImmediate(tick)
          }
          tick()
        })
      },
      { bufferedBytesMax: 50_000_000, unsentBytesMax: 20_000_000 },
    )
    const sockets = ['/small', '/large', '/larger'].map((path) => {
      const socket = connect(trial.server.port, '127.0.0.1')
      socket.on('error', () => socket.destroy())
      socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
      socket.pause()
      return socket
    })
    await expect.poll(() => trial.slowReaders.length).toBeGreaterThan(0)
    expect(trial.slowReaders[0]).toMatchObject({ limit: 'unsentBytesMax', limitBytes: 20_000_000 })
    expect(ended).not.toContain('/small')
    for (const socket of sockets) socket.destroy()
  })

  it('close - a reply that is cut off may write a last event', async () => {
    let writer: StreamWriter | null = null
    const trial = await serve(async () =>
      streamOf((opened) => {
        writer = opened
        opened.write('begun ', true)
      }),
    )
    const reply = await fetch(url(trial))
    const cutOff = await trial.server.close(10, () => {
      const opened = writer as StreamWriter | null
      opened?.write('ended here', true)
      opened?.end()
    })
    expect([cutOff, await reply.text()]).toEqual([1, 'begun ended here'])
  })
})
