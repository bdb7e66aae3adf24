/**
 * What every `RequestPlane` must do, as named cases that throw on a violation.
 *
 * A case gets a plane with one worker (`WORKER`), whose handler the case supplies.
 */
import { isDeepStrictEqual } from 'node:util'

import { BatonError, workerIdOf } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import type { Chunk, GenerateRequest, ReplySink, RequestPlane } from '../request/index.ts'
import { finishChunk } from '../request/index.ts'
import type { ReplyPort, WorkerHandler } from '../wire/index.ts'

export const WORKER: WorkerId = workerIdOf(7)

export interface PlaneUnderTest {
  readonly plane: RequestPlane
  /** Makes the worker vanish as if its process had died. */
  readonly killWorker: () => Promise<void> | void
}

export type PlaneFactory = (handler: WorkerHandler) => Promise<PlaneUnderTest>

export interface PlaneCase {
  readonly name: string
  run(create: PlaneFactory): Promise<void>
}

/** Collects a reply; `ended` resolves with how it ended. */
export class CollectingSink implements ReplySink {
  readonly tokens: number[] = []
  readonly chunks: Chunk[] = []
  readonly errors: BatonError[] = []
  endCount = 0
  callsAfterEnd = 0
  readonly ended: Promise<string>
  #resolve: (how: string) => void = () => undefined

  constructor() {
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  onToken(tokenId: number): void {
    this.#count()
    this.tokens.push(tokenId)
  }

  onChunk(chunk: Chunk): void {
    this.#count()
    this.chunks.push(chunk)
    this.tokens.push(...chunk.tokenIds)
    if (chunk.finish !== undefined) this.#end(chunk.finish)
  }

  onError(error: BatonError): void {
    this.#count()
    this.errors.push(error)
    this.#end(error.code)
  }

  #count(): void {
    if (this.endCount > 0) this.callsAfterEnd += 1
  }

  #end(how: string): void {
    this.endCount += 1
    this.#resolve(how)
  }
}

/** A small request; its first token is the number of tokens with which `countingHandler` answers. */
export function planeRequest(requestId: string, tokenIds: readonly number[]): GenerateRequest {
  return {
    requestId,
    model: 'kit',
    tokenIds: Uint32Array.from(tokenIds),
    sampling: {},
    stop: {},
    output: {},
    eosTokenIds: [2],
    routing: {},
  }
}

/** Answers with as many tokens as the value of the prompt's first token: 0, 1, 2 … */
export const countingHandler: WorkerHandler = {
  serve(request, reply) {
    const count = request.tokenIds[0] ?? 0
    for (let i = 0; i < count; i++) reply.token(i)
    reply.chunk(finishChunk('length'))
    return { cancel: () => undefined }
  },
}

function expectSame(what: string, actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return
  throw new Error(`${what}: ${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`)
}

/** A handler whose replies stay open until the case ends them. */
class OpenHandler implements WorkerHandler {
  readonly cancels: string[] = []
  readonly replies: ReplyPort[] = []
  #onServe: () => void = () => undefined
  readonly served = new Promise<void>((resolve) => {
    this.#onServe = resolve
  })
  readonly #endsOnStop: boolean
  #onCancel: () => void = () => undefined
  readonly cancelled = new Promise<void>((resolve) => {
    this.#onCancel = resolve
  })

  constructor(endsOnStop = true) {
    this.#endsOnStop = endsOnStop
  }

  serve(_request: GenerateRequest, reply: ReplyPort): { cancel(kind: 'stop' | 'kill'): void } {
    this.replies.push(reply)
    reply.token(1)
    this.#onServe()
    return {
      cancel: (kind) => {
        this.cancels.push(kind)
        if (this.#endsOnStop) reply.chunk(finishChunk('cancelled'))
        this.#onCancel()
      },
    }
  }
}

async function withPlane(
  create: PlaneFactory,
  handler: WorkerHandler,
  body: (subject: PlaneUnderTest) => Promise<void>,
): Promise<void> {
  const subject = await create(handler)
  try {
    await body(subject)
  } finally {
    await subject.plane.close()
    await subject.killWorker()
  }
}

export const REQUEST_PLANE_CASES: readonly PlaneCase[] = [
  {
    name: 'a worker that always has a next item is told to wait, so that everything else can run',
    async run(create) {
      let sent = 0
      const handler: WorkerHandler = {
        serve(_request, reply) {
          while (reply.isWritable && sent++ < 1_000_000) reply.token(1)
          void reply.drained().then(() => reply.chunk(finishChunk('length')))
          return { cancel: () => undefined }
        },
      }
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        plane.send(WORKER, planeRequest('r', [1]), sink)
        expectSame('the end', await sink.ended, 'length')
        expectSame('whether it waited', sent < 1_000_000, true)
      })
    },
  },
  {
    name: "a worker that writes into its request does not change the sender's, which may be sent again",
    async run(create) {
      const handler: WorkerHandler = {
        serve(request, reply) {
          request.tokenIds.fill(0)
          Object.assign(request.sampling, { temperature: 9 })
          Object.assign(request.stop, { maxTokens: 9 })
          Object.assign(request.output, { logprobs: 9 })
          reply.chunk(finishChunk('length'))
          return { cancel: () => undefined }
        },
      }
      await withPlane(create, handler, async ({ plane }) => {
        const request = planeRequest('r', [3, 4, 5])
        const sink = new CollectingSink()
        plane.send(WORKER, request, sink)
        await sink.ended
        expectSame('the request', request, planeRequest('r', [3, 4, 5]))
      })
    },
  },
  {
    name: 'tokens arrive in order and the reply ends once',
    run: (create) =>
      withPlane(create, countingHandler, async ({ plane }) => {
        const sinks = [3, 0, 500, 1].map((count) => {
          const sink = new CollectingSink()
          plane.send(WORKER, planeRequest(`r${count}`, [count]), sink)
          return { count, sink }
        })
        for (const { count, sink } of sinks) {
          expectSame('end', await sink.ended, 'length')
          expectSame('tokens', sink.tokens, [...Array(count).keys()])
          expectSame('ends and later calls', [sink.endCount, sink.callsAfterEnd], [1, 0])
        }
      }),
  },
  {
    name: 'the request arrives unchanged',
    run: async (create) => {
      let seen: GenerateRequest | null = null
      const handler: WorkerHandler = {
        serve(request, reply) {
          seen = request
          reply.chunk(finishChunk('stop', { tokenIds: [9], stopReason: 'x' }))
          return { cancel: () => undefined }
        },
      }
      const sent: GenerateRequest = {
        ...planeRequest('full', [1, 0xffffffff]),
        sampling: { temperature: 0.5, logitBias: { 5: -2 } },
        routing: { sessionId: 'é€😀', requiredTaints: ['a'] },
        prefillResult: { engineParams: { nested: [1, null, 'x'] } },
      }
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        plane.send(WORKER, sent, sink)
        expectSame('end', await sink.ended, 'stop')
        expectSame('request', seen, sent)
        expectSame('chunk', sink.chunks[0], { tokenIds: [9], stopReason: 'x', finish: 'stop' })
      })
    },
  },
  {
    name: 'tokens and chunks of one reply keep their order',
    run: async (create) => {
      const handler: WorkerHandler = {
        serve(_request, reply) {
          reply.token(1)
          reply.chunk({ tokenIds: [2, 3], engineData: 1 })
          reply.token(4)
          reply.chunk(finishChunk('eos', { tokenIds: [5] }))
          reply.token(6)
          return { cancel: () => undefined }
        },
      }
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        plane.send(WORKER, planeRequest('r', [1]), sink)
        await sink.ended
        expectSame('tokens', sink.tokens, [1, 2, 3, 4, 5])
      })
    },
  },
  {
    name: 'an error arrives with its code and data and ends the reply',
    run: async (create) => {
      const handler: WorkerHandler = {
        serve(_request, reply) {
          reply.error(new BatonError('kv.offer_gone', 'no longer held', { data: { offer: 'o1' } }))
          reply.chunk(finishChunk('length'))
          return { cancel: () => undefined }
        },
      }
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        plane.send(WORKER, planeRequest('r', [1]), sink)
        expectSame('end', await sink.ended, 'kv.offer_gone')
        expectSame('data', sink.errors[0]?.data, { offer: 'o1' })
        expectSame('ends', sink.endCount, 1)
      })
    },
  },
  {
    name: 'stop reaches the worker and the reply ends as the worker reports',
    run: async (create) => {
      const handler = new OpenHandler()
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        const handle = plane.send(WORKER, planeRequest('r', [1]), sink)
        await handler.served
        handle.cancel('stop')
        expectSame('end', await sink.ended, 'cancelled')
        handle.cancel('stop')
        handle.cancel('kill')
        await handler.cancelled
        expectSame('cancels', handler.cancels, ['stop'])
        expectSame('ends', sink.endCount, 1)
      })
    },
  },
  {
    name: 'kill ends the reply at once and nothing follows',
    run: async (create) => {
      const handler = new OpenHandler(false)
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        const handle = plane.send(WORKER, planeRequest('r', [1]), sink)
        await handler.served
        handle.cancel('kill')
        expectSame('end', await sink.ended, 'cancelled')
        await handler.cancelled
        handler.replies[0]?.token(5)
        handler.replies[0]?.chunk(finishChunk('length'))
        expectSame('cancels', handler.cancels, ['kill'])
        expectSame('ends and later calls', [sink.endCount, sink.callsAfterEnd], [1, 0])
      })
    },
  },
  {
    name: 'a worker is told that its offer will not be fetched; an unknown worker is not an error',
    run: async (create) => {
      let told: (offerId: string) => void = () => undefined
      const released = new Promise<string>((resolve) => {
        told = resolve
      })
      const handler: WorkerHandler = { ...countingHandler, releaseKv: (offerId) => told(offerId) }
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        plane.send(WORKER, planeRequest('r', [1]), sink)
        await sink.ended
        plane.releaseKv?.(workerIdOf(404), 'other')
        plane.releaseKv?.(WORKER, 'offer-é')
        expectSame('offer', await released, 'offer-é')
      })
    },
  },
  {
    name: 'an unknown worker is refused, and send does not throw',
    run: (create) =>
      withPlane(create, countingHandler, async ({ plane }) => {
        const sink = new CollectingSink()
        plane.send(workerIdOf(404), planeRequest('r', [1]), sink)
        expectSame('end', await sink.ended, 'backend.worker_unavailable')
      }),
  },
  {
    name: 'a worker that dies ends every running reply with transport.disconnected',
    run: async (create) => {
      const handler = new OpenHandler(false)
      await withPlane(create, handler, async ({ plane, killWorker }) => {
        const sinks = [new CollectingSink(), new CollectingSink(), new CollectingSink()]
        for (const sink of sinks) plane.send(WORKER, planeRequest('r', [1]), sink)
        await handler.served
        await killWorker()
        for (const sink of sinks) {
          expectSame('end', await sink.ended, 'transport.disconnected')
          expectSame('ends', sink.endCount, 1)
        }
      })
    },
  },
  {
    name: 'a closed plane ends running replies and kills them at the worker',
    run: async (create) => {
      const handler = new OpenHandler(false)
      await withPlane(create, handler, async ({ plane }) => {
        const sink = new CollectingSink()
        plane.send(WORKER, planeRequest('r', [1]), sink)
        await handler.served
        await plane.close()
        expectSame('end', await sink.ended, 'transport.disconnected')
        await handler.cancelled
        expectSame('cancels', handler.cancels, ['kill'])
      })
    },
  },
  {
    name: 'a sink that throws ends its own reply and no other',
    run: (create) =>
      withPlane(create, countingHandler, async ({ plane }) => {
        const bad = new CollectingSink()
        bad.onToken = () => {
          throw new Error('sink fault')
        }
        const good = new CollectingSink()
        plane.send(WORKER, planeRequest('bad', [3]), bad)
        plane.send(WORKER, planeRequest('good', [3]), good)
        expectSame('bad end', await bad.ended, 'runtime.internal')
        expectSame('good end', await good.ended, 'length')
        expectSame('good tokens', good.tokens, [0, 1, 2])
      }),
  },
]
