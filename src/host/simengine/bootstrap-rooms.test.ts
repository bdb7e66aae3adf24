import { createConnection } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { RequestContext } from '../../engine/index.ts'
import { SimEngine } from '../../simengine/index.ts'
import type { Chunk, GenerateRequest } from '../../engine/index.ts'
import { osClock } from '../../os/os-clock.ts'
import { BootstrapRooms } from './bootstrap-rooms.ts'

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

function newRooms(): BootstrapRooms {
  const rooms = new BootstrapRooms('127.0.0.1')
  ends.push(() => rooms.close())
  return rooms
}

const patient = (): AbortSignal => new AbortController().signal

describe('BootstrapRooms - prefill and decode meet', () => {
  it.each(['prefill', 'decode'])(
    '%s first - both continue when the other has arrived',
    async (first) => {
      const [prefill, decode] = [newRooms(), newRooms()]
      const at = await prefill.listen(0)
      const order: string[] = []
      const sides = {
        prefill: () => prefill.complete('9223372036854775807', patient()),
        decode: () => decode.join({ ...at, room: '9223372036854775807' }, patient()),
      }
      const one = sides[first as 'prefill']().then(() => order.push('first'))
      // Two later pairs meet and leave while the first still waits.
      await Promise.all([
        prefill.complete('1', patient()),
        decode.join({ ...at, room: '1' }, patient()),
      ])
      expect(order).toEqual([])
      const other = first === 'prefill' ? sides.decode() : sides.prefill()
      await Promise.all([one, other])
    },
  )

  it('several rooms - each decode is told about its own prompt only', async () => {
    const [prefill, decode] = [newRooms(), newRooms()]
    const at = await prefill.listen(0)
    const gone = new AbortController()
    const stranger = decode.join({ ...at, room: '2' }, gone.signal)
    await Promise.all([
      prefill.complete('1', patient()),
      decode.join({ ...at, room: '1' }, patient()),
    ])
    gone.abort()
    await expect(stranger).rejects.toMatchObject({ code: 'kv.transfer_failed' })
  })

  it('a wait ends - when the request, the other side or the server ends', async () => {
    const [prefill, decode] = [newRooms(), newRooms()]
    const at = await prefill.listen(0)
    const gone = new AbortController()
    const left = prefill.complete('1', gone.signal)
    gone.abort()
    await expect(left).rejects.toMatchObject({ code: 'kv.transfer_failed' })
    const waiting = decode.join({ ...at, room: '2' }, patient())
    const refused = expect(waiting).rejects.toMatchObject({ code: 'kv.transfer_failed' })
    await prefill.close()
    await refused
    const late = decode.join({ ...at, room: '3' }, patient())
    await expect(late).rejects.toMatchObject({ code: 'kv.transfer_failed' })
  })

  it.each(['', '-1', 'x', '18446744073709551616'])('room %j - is not a u64', async (room) => {
    await expect(newRooms().complete(room, patient())).rejects.toThrow('u64')
  })

  it('more bytes than a room number - the connection is closed', async () => {
    const { host, port } = await newRooms().listen(0)
    const socket = createConnection({ host, port })
    ends.push(async () => socket.destroy())
    socket.write(Buffer.alloc(9, 1))
    await new Promise((resolve) => socket.once('close', resolve).on('error', () => undefined))
  })
})

describe('SimEngine - a bootstrap port', () => {
  const requestOf = (change: Partial<GenerateRequest>): GenerateRequest => ({
    requestId: 'r',
    model: 'sim',
    tokenIds: Uint32Array.from({ length: 40 }, (_, i) => i),
    sampling: {},
    stop: { maxTokens: 4 },
    output: {},
    eosTokenIds: [],
    routing: {},
    ...change,
  })
  const engineOf = (mode: 'prefill' | 'decode' | 'agg', handOffTimeoutMs = 60_000): SimEngine => {
    const engine = new SimEngine({
      clock: osClock,
      model: 'sim',
      mode,
      speedupRatio: 'instantaneous',
      bootstrap: newRooms(),
      handOffTimeoutMs,
      ...(mode === 'prefill' ? { bootstrapPort: 0 } : {}),
    })
    ends.push(() => engine.cleanup())
    return engine
  }
  const read = async (engine: SimEngine, request: GenerateRequest): Promise<Chunk[]> => {
    const chunks: Chunk[] = []
    for await (const chunk of engine.generate(request, new RequestContext('r'))) chunks.push(chunk)
    return chunks
  }

  it('prefill and decode run at the same time - decode returns the output of an aggregated worker', async () => {
    const [prefill, decode, agg] = [engineOf('prefill'), engineOf('decode'), engineOf('agg')]
    const config = await prefill.start(workerIdOf(1))
    await decode.start(workerIdOf(2))
    await agg.start(workerIdOf(3))
    const { bootstrapHost: host = '', bootstrapPort: port = 0 } = config
    expect(port).toBeGreaterThan(0)
    const bootstrap = { host, port, room: '77' }
    const decoded = read(decode, requestOf({ bootstrap }))
    const prefilled = await read(prefill, requestOf({ bootstrap, stop: { maxTokens: 1 } }))
    expect(prefilled.map(({ finish }) => finish)).toEqual(['length'])
    const tokens = (await decoded).flatMap(({ tokenIds }) => [...tokenIds])
    const alone = (await read(agg, requestOf({}))).flatMap(({ tokenIds }) => [...tokenIds])
    expect(tokens).toEqual(alone)
  })

  it('the other side does not come - a typed error after handOffTimeoutMs, and nothing is held', async () => {
    const prefill = engineOf('prefill', 30)
    const { bootstrapHost: host = '', bootstrapPort: port = 0 } = await prefill.start(workerIdOf(1))
    const bootstrap = { host, port, room: '77' }
    const waiting = read(prefill, requestOf({ bootstrap, stop: { maxTokens: 1 } }))
    expect(prefill.isQuiescent()).toBe(false)
    await expect(waiting).rejects.toMatchObject({ code: 'kv.transfer_failed' })
    expect(prefill.isQuiescent()).toBe(true)
  })

  it('a stop during the wait - ends with cancelled', async () => {
    const [prefill, decode] = [engineOf('prefill'), engineOf('decode')]
    const { bootstrapHost: host = '', bootstrapPort: port = 0 } = await prefill.start(workerIdOf(1))
    await decode.start(workerIdOf(2))
    const context = new RequestContext('r')
    const bootstrap = { host, port, room: '77' }
    const stream = decode.generate(requestOf({ bootstrap }), context)
    const first = stream[Symbol.asyncIterator]().next()
    context.stop()
    expect(await first).toMatchObject({ value: { finish: 'cancelled', tokenIds: [] } })
  })

  it('an unusable port - the engine does not start', () => {
    expect(() => new SimEngine({ clock: osClock, model: 'sim', bootstrapPort: 1 })).toThrow(
      'bootstrap',
    )
  })
})
