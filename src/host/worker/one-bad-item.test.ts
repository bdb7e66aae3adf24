/** An engine that violates its contract affects only the request in which it does so. */
import { afterEach, describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { MemoryDiscovery } from '../../discovery/memory-discovery.ts'
import { finishChunk, tokenChunk, usageOf } from '../../engine/index.ts'
import type {
  Engine,
  EngineChunk,
  EngineConfig,
  EngineObserver,
  GenerateRequest,
} from '../../engine/index.ts'
import type { KvEvent, LoadReport } from '../../kv/index.ts'
import type { Chunk } from '../../request/index.ts'
import { TcpRequestPlane } from '../../network/plane/tcp-request-plane.ts'
import type { ShutdownConfig, WorkerEvent } from '../../worker/index.ts'
import { until } from '../../../test/until.ts'
import { HostedWorker } from './hosted-worker.ts'

const ends: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** Streams wait until the test continues them; the test decides what they yield then. */
class WrongEngine implements Engine {
  observer: EngineObserver | null = null
  readonly bad: EngineChunk
  #goOn: () => void = () => undefined
  readonly #gate = new Promise<void>((resolve) => (this.#goOn = resolve))

  constructor(bad: EngineChunk = { tokenIds: [1] }) {
    this.bad = bad
  }

  async start(): Promise<EngineConfig> {
    return { model: 'wrong', contextLength: 100, kvCacheBlockSize: 4 }
  }

  release(): void {
    this.#goOn()
  }

  observe(observer: EngineObserver): void {
    this.observer = observer
  }

  async *generate(request: GenerateRequest): AsyncIterable<EngineChunk> {
    yield tokenChunk(7)
    await this.#gate
    if (request.requestId !== 'bad') yield tokenChunk(8)
    else if (typeof this.bad === 'function') yield* (this.bad as () => AsyncIterable<EngineChunk>)()
    else yield this.bad
    yield finishChunk('length', { usage: usageOf(request.tokenIds.length, 2) })
  }

  async cleanup(): Promise<void> {}
}

class Reply {
  tokens: number[] = []
  end: string | null = null
  error: BatonError | null = null
  embedding: Float32Array | null = null

  onToken = (id: number): void => void this.tokens.push(id)

  onChunk = ({ tokenIds, finish, embedding }: Chunk): void => {
    this.tokens.push(...tokenIds)
    this.embedding = embedding ?? null
    if (finish !== undefined) this.end = finish
  }

  onError = (error: BatonError): void => {
    this.error = error
    this.end = error.code
  }
}

async function serve(engine: WrongEngine, shutdown: Partial<ShutdownConfig> = {}) {
  const events: WorkerEvent[] = []
  const hosted = new HostedWorker({
    engine,
    engineName: 'wrong',
    mode: 'agg',
    plane: { kind: 'tcp', host: '127.0.0.1', port: 0 },
    discovery: new MemoryDiscovery(),
    version: '0.0.0',
    shutdown: { routerGraceMs: 0, ...shutdown },
    observe: (event) => events.push(event),
  })
  ends.push(() => hosted.stop())
  const card = await hosted.start()
  let disconnects = 0
  const batches: number[] = []
  const loads: LoadReport[] = []
  const plane = new TcpRequestPlane({
    onDisconnected: () => disconnects++,
    onKvEvents: (_, batch) => batches.push(batch.events.length),
    onLoad: (_, load) => loads.push(load),
  })
  ends.push(() => plane.close())
  plane.workerJoined(card)
  const send = (requestId: string, fields: Partial<GenerateRequest> = {}): Reply => {
    const reply = new Reply()
    const request: GenerateRequest = {
      requestId,
      model: 'wrong',
      tokenIds: Uint32Array.of(1, 2, 3),
      sampling: {},
      stop: {},
      output: {},
      eosTokenIds: [],
      routing: {},
      ...fields,
    }
    plane.send(card.workerId, request, reply)
    return reply
  }
  const joinAgain = (): void => plane.workerJoined(card)
  return { events, batches, loads, send, joinAgain, disconnects: () => disconnects }
}

const circle: Record<string, unknown> = {}
circle['self'] = circle

function refuse(): never {
  throw new Error('no')
}

function unreadable(key: string): object {
  return Object.defineProperty({}, key, { get: refuse, enumerable: true })
}

/** Arrays that report any length, and whose memory cannot be reached. */
class OddFloats extends Float32Array {
  override get length(): number {
    return 5000
  }
  override get buffer(): never {
    return refuse()
  }
}
class OddHashes extends Uint32Array {
  #reads = 0
  override get length(): number {
    return this.#reads++ < 3 ? 2 : 1000
  }
}

function readableFor(times: number, value: object): object {
  let reads = 0
  const get = (target: object, name: PropertyKey): unknown =>
    ++reads > times ? refuse() : Reflect.get(target, name)
  return new Proxy(value, { get })
}

function failure(data: object): BatonError {
  return new BatonError('backend.unknown', 'm', { data: data as BatonError['data'] })
}

describe('one invalid item', () => {
  const logprob = { tokenId: 9, logprob: NaN, top: [] }
  const items: [string, unknown, string][] = [
    ['ids that are no list', { tokenIds: 'ab' }, 'chunk-malformed'],
    ['an id that is no number', { tokenIds: ['9'] }, 'token-invalid'],
    ['no record', 7, 'chunk-malformed'],
    ['a finish that is unknown', { tokenIds: [], finish: 'tired' }, 'finish-unknown'],
    ['an embedding in its place', { tokenIds: [], embedding: [1] }, 'payload-invalid'],
    ['logprobs of NaN', { tokenIds: [9], logprobs: [logprob] }, 'logprob-invalid'],
    ['engine data in a circle', { tokenIds: [9], engineData: circle }, 'payload-invalid'],
    ['engine data with a function', { tokenIds: [9], engineData: { f() {} } }, 'payload-invalid'],
    ['engine data of a class', { tokenIds: [9], engineData: new Map() }, 'payload-invalid'],
    ['engine data with a huge number', { tokenIds: [9], engineData: 2n ** 80n }, 'payload-invalid'],
    [
      'engine data of 9 MiB',
      { tokenIds: [9], engineData: 'x'.repeat(9 * 2 ** 20) },
      'payload-invalid',
    ],
    ['usage that is no record', { tokenIds: [9], usage: 'much' }, 'usage-invalid'],
    ['usage below zero', { tokenIds: [9], usage: usageOf(-3, 1) }, 'usage-invalid'],
    ['more cached than prompted', { tokenIds: [9], usage: usageOf(3, 1, 4) }, 'cached-over-prompt'],
    ['wrong usage before the end', { tokenIds: [9], usage: usageOf(3, 9) }, 'usage-mismatch'],
    [
      'a wrong prompt',
      { tokenIds: [9], finish: 'stop', usage: usageOf(4, 2) },
      'usage-prompt-mismatch',
    ],
    ['an id without a text', { tokenIds: [Object.create(null)] }, 'token-invalid'],
    ['ids that throw', unreadable('tokenIds'), 'chunk-malformed'],
    ['usage that throws', { tokenIds: [9], usage: unreadable('promptTokens') }, 'chunk-malformed'],
    [
      'usage of bigint',
      { tokenIds: [9], usage: { ...usageOf(3, 1), promptTokens: 3n } },
      'usage-invalid',
    ],
    ['holes for ids', { tokenIds: Object.assign([], { 5: 3 }) }, 'token-invalid'],
    ['signed ids', { tokenIds: Int32Array.of(-1) }, 'token-invalid'],
    ['ids of 64 bits', { tokenIds: BigUint64Array.of(9n) }, 'chunk-malformed'],
    ['ids of a set', { tokenIds: new Set([9]) }, 'chunk-malformed'],
    ['a finish without a text', { tokenIds: [9], finish: Object.create(null) }, 'finish-unknown'],
    ['logprobs beside nothing', { tokenIds: [], logprobs: [1n] }, 'logprob-invalid'],
    [
      'engine data of bigints',
      { tokenIds: [9], engineData: BigInt64Array.of(1n) },
      'payload-invalid',
    ],
    [
      'engine data that names the same bytes a thousand times',
      { tokenIds: [9], engineData: Array<object>(1000).fill(new Uint8Array(7 * 2 ** 20)) },
      'payload-invalid',
    ],
    [
      'ids in a typed array without an end',
      { tokenIds: new Uint32Array(2 ** 26) },
      'item-too-large',
    ],
    [
      'the same alternatives for two thousand tokens',
      {
        tokenIds: [],
        logprobs: Array<object>(2000).fill({
          ...logprob,
          logprob: -1,
          top: Array<object>(10_000).fill({ tokenId: 1, logprob: -1 }),
        }),
      },
      'item-too-large',
    ],
    ['cancelled, unasked', { tokenIds: [], finish: 'cancelled' }, 'cancelled-unasked'],
  ]
  it.each(items)('%s - ends its own request, with the violated rule', async (_name, bad, rule) => {
    const engine = new WrongEngine(bad as EngineChunk)
    const { send, disconnects } = await serve(engine)
    const [guilty, innocent] = [send('bad'), send('good')]
    await until('both streams run', () => guilty.tokens.length + innocent.tokens.length === 2)
    engine.release()
    await until('both streams end', () => guilty.end !== null && innocent.end !== null)
    expect(guilty.error?.data).toMatchObject({ rule })
    expect([innocent.tokens, innocent.end]).toEqual([[7, 8], 'length'])
    expect(disconnects()).toBe(0)
  })

  const thrown: [string, unknown, string, RegExp][] = [
    ['a huge message', new Error('x'.repeat(9 * 2 ** 20)), 'backend.unknown', /^x{8192}…$/],
    ['huge data', failure({ x: 'y'.repeat(9 * 2 ** 20) }), 'backend.unknown', /^m$/],
    ['data in a circle', failure(circle), 'backend.unknown', /^m$/],
    ['data of bigint', failure({ x: 5n }), 'backend.unknown', /^m$/],
    ['an unknown code', Object.assign(failure({}), { code: 'nope' }), 'backend.unknown', /^m$/],
    [
      'a cancellation that nobody asked for',
      new BatonError('request.cancelled', 'm'),
      'backend.cancelled',
      /cancelled-unasked.* m$/,
    ],
    ['nothing', undefined, 'backend.unknown', /^undefined$/],
    ['a symbol', Symbol('s'), 'backend.unknown', /^Symbol\(s\)$/],
    ['what has no text', Object.create(null), 'backend.unknown', /cannot be converted to text/],
    [
      'a proxy that throws',
      new Proxy({}, { getPrototypeOf: refuse }),
      'backend.unknown',
      /cannot be converted to text/,
    ],
  ]
  it.each(thrown)('%s is thrown - ends its own request', async (_name, value, code, message) => {
    const engine = new WrongEngine(async function* () {
      yield tokenChunk(9)
      throw value
    } as never)
    const { send, disconnects } = await serve(engine)
    const [guilty, innocent] = [send('bad'), send('good')]
    await until('both streams run', () => guilty.tokens.length + innocent.tokens.length === 2)
    engine.release()
    await until('both streams end', () => guilty.end !== null && innocent.end !== null)
    expect([guilty.tokens, guilty.end]).toEqual([[7, 9], code])
    expect(guilty.error?.message).toMatch(message)
    expect([innocent.tokens, innocent.end, disconnects()]).toEqual([[7, 8], 'length', 0])
  })

  it('an iterator that hangs when it is closed - its request ends all the same', async () => {
    const engine = new WrongEngine((() => ({
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ done: false, value: { tokenIds: ['x'] } }),
        return: () => new Promise(() => undefined),
      }),
    })) as never)
    // Its session never ends, so the worker would wait for it without this limit.
    const { send } = await serve(engine, { inflightMs: 100 })
    const guilty = send('bad')
    engine.release()
    await until('the stream ends', () => guilty.end !== null)
    expect(guilty.error?.data).toMatchObject({ rule: 'token-invalid' })
  })

  it.each<[string, unknown, readonly number[] | null]>([
    ['in a list', [1, 2], [1, 2]],
    ['of f64', Float64Array.of(1, 2), [1, 2]],
    ['of texts', ['1'], null],
    ['of a class of its own', new OddFloats(2), [0, 0]],
    ['of 4 billion holes', Object.assign([], { length: 2 ** 32 - 1 }), null],
    ['of nothing', new Float32Array(0), null],
    ['too large for f32', [1e300], null],
    ['that is none', undefined, null],
  ])('an embedding %s - affects no other request', async (_name, given, vector) => {
    const engine = Object.assign(new WrongEngine(), { embed: () => Promise.resolve(given) })
    const { send, disconnects } = await serve(engine as WrongEngine)
    const innocent = send('good')
    await until('the stream runs', () => innocent.tokens.length === 1)
    const asked = send('bad', { kind: 'embed' })
    await until('the embedding is answered', () => asked.end !== null)
    engine.release()
    await until('the stream ends', () => innocent.end !== null)
    expect([innocent.tokens, innocent.end, disconnects()]).toEqual([[7, 8], 'length', 0])
    expect(asked.embedding === null ? null : [...asked.embedding]).toEqual(vector)
    if (vector === null) expect(asked.end).toBe('backend.contract_violation')
  })

  it('ids in a typed array - are accepted', async () => {
    const engine = new WrongEngine({ tokenIds: Uint32Array.of(9) })
    const { send } = await serve(engine)
    const reply = send('bad')
    engine.release()
    await until('the stream ends', () => reply.end !== null)
    expect([reply.tokens, reply.end]).toEqual([[7, 9], 'length'])
  })

  const hashes = Uint32Array.of(1, 2)
  const stored = { kind: 'stored', parent: null, hashes, localHashes: new Uint32Array(0) }
  const events: [string, unknown][] = [
    ['an unknown kind', { kind: 'lost', hashes }],
    ['no record', null],
    ['an unknown tier', { ...stored, tier: 'tape' }],
    ['hashes in a list', { ...stored, tier: 'device', hashes: [1, 2] }],
    ['half a hash', { kind: 'removed', tier: 'device', hashes: Uint32Array.of(1) }],
    ['a parent of one half', { ...stored, tier: 'device', parent: [1] }],
    ['a field that throws', unreadable('kind')],
    ['hashes behind a proxy', { kind: 'removed', tier: 'device', hashes: new Proxy(hashes, {}) }],
    [
      'hashes of a class of its own',
      { kind: 'removed', tier: 'device', hashes: new (class extends Uint32Array {})(3) },
    ],
    [
      'more hashes than a frame has room for',
      { kind: 'removed', tier: 'device', hashes: new Uint32Array(2 ** 25) },
    ],
    ['no hashes', { kind: 'removed', tier: 'device' }],
    ['no tier', { kind: 'removed', hashes }],
    ['a tier that throws', { kind: 'removed', hashes, tier: Object.create(null) }],
    ['a kind without a text', { kind: Object.create(null) }],
    ['a bigint for a parent', { ...stored, tier: 'device', parent: [1n, 2n] }],
    ['local hashes of others', { ...stored, tier: 'device', localHashes: Uint32Array.of(1) }],
  ]
  it.each(events)('a KV event of %s - is dropped, the others are reported', async (_name, bad) => {
    const engine = new WrongEngine()
    const scene = await serve(engine)
    const reply = scene.send('good')
    await until('the stream runs', () => reply.tokens.length === 1)
    const good: KvEvent = { ...stored, kind: 'stored', tier: 'device' }
    engine.observer?.kvEvents(0, [bad as KvEvent, good])
    engine.observer?.kvEvents(-1, [good])
    engine.observer?.kvEvents(0, 'none' as never)
    engine.release()
    await until('the stream ends', () => reply.end !== null && scene.batches.at(-1) === 1)
    expect(reply.end).toBe('length')
    expect(scene.disconnects()).toBe(0)
    expect(scene.events.filter((event) => event.kind === 'engine-fault')).toHaveLength(3)
  })

  it.each<[string, object]>([
    ['hashes that say another length', { hashes: new OddHashes(2) }],
    ['a parent that can be read only once', { hashes, parent: readableFor(3, [5, 6]) }],
  ])('a KV event with %s - is told as it is, and the connection stays', async (_name, odd) => {
    const engine = new WrongEngine()
    const scene = await serve(engine)
    const reply = scene.send('good')
    await until('the stream runs', () => reply.tokens.length === 1)
    engine.observer?.kvEvents(0, [{ ...stored, tier: 'device', ...odd } as KvEvent])
    engine.release()
    await until('the stream ends', () => reply.end !== null && scene.batches.length > 0)
    expect([reply.tokens, reply.end, scene.disconnects()]).toEqual([[7, 8], 'length', 0])
    expect(scene.batches).toEqual([1])
  })

  const good = { ...stored, kind: 'stored', tier: 'device' } as const
  it.each<[string, () => unknown, number[]]>([
    ['one of no kind', () => [{ kind: 'lost' }, good], [2]],
    ['one of an unknown tier', () => [{ ...good, tier: 'tape' }, good], [2]],
    ['no list', () => 7, [1]],
    ['a list of 4 billion holes', () => Object.assign([], { length: 2 ** 32 - 1 }), [1]],
    ['nothing but an error', () => refuse(), [1]],
  ])('an announcement of cached blocks: %s - affects no stream', async (_name, heldKv, told) => {
    const engine = Object.assign(new WrongEngine(), { heldKv })
    const scene = await serve(engine as WrongEngine)
    const reply = scene.send('good')
    await until('the stream runs', () => reply.tokens.length === 1)
    engine.observer?.kvEvents(0, [good])
    scene.joinAgain()
    await until('the blocks are told', () => scene.batches.length === 2)
    engine.release()
    await until('the stream ends', () => reply.end !== null)
    expect([reply.end, scene.disconnects()]).toEqual(['length', 0])
    expect(scene.batches).toEqual([1, ...told])
    expect(scene.events.filter((event) => event.kind === 'engine-fault')).toHaveLength(1)
  })

  it.each([
    ['without a text', Object.create(null)],
    ['that the config does not name', 1],
  ])('KV events of a rank %s - are ignored, and the engine continues', async (_name, rank) => {
    const engine = new WrongEngine()
    const scene = await serve(engine)
    const reply = scene.send('good')
    await until('the stream runs', () => reply.tokens.length === 1)
    engine.observer?.kvEvents(rank as never, [good])
    engine.observer?.kvEvents(0, [good])
    await until('the blocks are told', () => scene.batches.length > 0)
    expect(scene.batches).toEqual([1])
    expect(scene.events.filter((event) => event.kind === 'engine-fault')).toHaveLength(1)
  })

  it.each([
    ['a fraction', { activeBlocks: 0.5 }],
    ['below zero', { queuedRequests: -1 }],
    ['not a number', { runningRequests: NaN }],
    ['a rank of no engine', { dpRank: 2 ** 31 }],
    ['a rank that the config does not name', { dpRank: 1 }],
    ['a bigint', { activeBlocks: 1n as never }],
    ['what has no text', { activeBlocks: Object.create(null) as never }],
  ])('a load report with %s - is dropped', async (_name, change) => {
    const engine = new WrongEngine()
    const scene = await serve(engine)
    const reply = scene.send('good')
    await until('the stream runs', () => reply.tokens.length === 1)
    const good: LoadReport = {
      dpRank: 0,
      activeBlocks: 1,
      totalBlocks: 2,
      runningRequests: 1,
      queuedRequests: 0,
      prefillTokensInFlight: 0,
    }
    engine.observer?.load({ ...good, ...change })
    engine.observer?.load({ ...good, ...change })
    engine.observer?.load(good)
    await until('a report arrives', () => scene.loads.length > 0)
    engine.release()
    expect(scene.loads).toEqual([good])
    expect(scene.events.filter((event) => event.kind === 'engine-fault')).toHaveLength(1)
  })
})
