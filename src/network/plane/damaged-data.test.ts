/** A proxy between a frontend and a worker that changes bits: no wrong token is taken for a right one. */
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { afterTest, listen, planeTo } from '../../../test/network/tcp-worker-kit.ts'
import { finishChunk } from '../../request/index.ts'
import { CollectingSink, WORKER, planeRequest } from '../../testing/request-plane-kit.ts'
import { TAG } from '../../wire/index.ts'
import type { WorkerHandler } from '../../wire/index.ts'

/** Answers with the prompt, so that a damaged prompt shows. */
const ECHO: WorkerHandler = {
  serve({ tokenIds }, reply) {
    for (const tokenId of tokenIds) reply.token(tokenId)
    reply.chunk(finishChunk('length'))
    return { cancel: () => undefined }
  },
}

/** Changes one bit of about every `everyBytes` of one direction. */
async function damagingProxy(targetPort: number, way: 'requests' | 'tokens', everyBytes: number) {
  let changed = 0
  let state = 1
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  const passed: Buffer[][] = []
  const pass = (from: Socket, to: Socket, isDamaged: boolean): void => {
    const pieces: Buffer[] = []
    passed.push(pieces)
    from.on('data', (bytes: Buffer) => {
      pieces.push(bytes)
      for (let at = 0; at < bytes.length && isDamaged; at++) {
        if (random() * everyBytes >= 1) continue
        bytes[at] = (bytes[at] as number) ^ (1 << Math.floor(8 * random()))
        changed += 1
      }
      to.write(bytes)
    })
    from.on('close', () => to.destroy())
    from.on('error', () => to.destroy())
  }
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(targetPort, '127.0.0.1')
    for (const socket of [near, far]) sockets.add(socket)
    pass(near, far, way === 'requests')
    pass(far, near, way === 'tokens')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterTest(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    changed: () => changed,
    /** All bytes of each direction of the connections so far. */
    passed: () => passed.map((pieces) => Buffer.concat(pieces)),
  }
}

describe('data damaged between frontend and worker', () => {
  it.each(['requests', 'tokens'] as const)(
    '%s - streams end with an error or are right',
    async (way) => {
      const { port, changed } = await damagingProxy(
        (await listen({ handler: ECHO })).port,
        way,
        3000,
      )
      const plane = planeTo({ host: '127.0.0.1', port })
      let right = 0
      let ended = 0
      for (let round = 0; changed() < 40 || right < 40; round++) {
        const prompt = Array.from({ length: 50 }, (_, i) => 1000 * round + i)
        const sink = new CollectingSink()
        plane.send(WORKER, planeRequest(`r${round}`, prompt), sink)
        const how = await sink.ended
        expect(sink.tokens).toEqual(prompt.slice(0, sink.tokens.length))
        if (how === 'length') {
          expect(sink.tokens).toEqual(prompt)
          right += 1
        } else {
          expect(how).toMatch(/^transport\./)
          ended += 1
          await new Promise((resolve) => setTimeout(resolve, 5))
        }
      }
      expect(ended).toBeGreaterThan(0)
    },
  )

  it.each([true, false])('checksums: %s - records are sent, or only frames', async (checksums) => {
    const proxy = await damagingProxy((await listen({ handler: ECHO })).port, 'tokens', Infinity)
    const plane = planeTo({ host: '127.0.0.1', port: proxy.port }, { checksums })
    const sink = new CollectingSink()
    plane.send(WORKER, planeRequest('r', [1, 2, 3]), sink)
    await sink.ended
    expect(sink.tokens).toEqual([1, 2, 3])
    const recordHead = Buffer.from([12, 0, 0, 0, TAG.SUM, 0, 0, 0])
    expect(proxy.passed().map((bytes) => bytes.includes(recordHead))).toEqual([
      checksums,
      checksums,
    ])
  })
})
