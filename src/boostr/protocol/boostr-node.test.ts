import { describe, expect, it } from 'vitest'

import { ManualClock } from '../../../test/router/manual-clock.ts'
import { decodeStep, kvOf, singleNode } from '../../../test/wire/boostr-toy.ts'
import { BoostrDecodeWorker } from './boostr-decode-worker.ts'
import { encodeBoostr, encodeKvCache } from './boostr-message.ts'
import type { BoostrFrame } from './boostr-message.ts'
import { BoostrPrefillWorker } from './boostr-prefill-worker.ts'
import { BoostrRouter } from './boostr-router.ts'
import { createDisaggConfig } from './disagg-config.ts'
import { wrapKv } from './kv-envelope.ts'

describe('one node of the dialect', () => {
  it.each([1, 2])(
    'parkedMax %i - at most so many unpaired halves may wait, and complete pairs never count',
    (max) => {
      const worker = new BoostrPrefillWorker({
        link: { send: () => undefined, reset: () => undefined },
        clock: new ManualClock(),
        prefill: (_, done) => done(new Uint8Array(8)),
        decodeWorkers: [200],
        maxKvTransferBytes: 1e6,
        peers: 'baton',
        ackMs: 500,
        parkedMax: max,
      })
      const descriptor = (requestId: bigint): BoostrFrame =>
        encodeBoostr({ kind: 'prefill-request', requestId, seqLen: 1, decodeRank: 200 })
      const prompt = encodeBoostr({ kind: 'activation', tokenIds: BigInt64Array.of(1n) })
      for (let i = 1n; i <= 5n; i++) {
        worker.receive(0, descriptor(i))
        worker.receive(0, prompt)
      }
      expect(worker.load).toBe(5)
      for (let i = 0; i < max; i++) worker.receive(0, descriptor(9n))
      expect(() => worker.receive(0, descriptor(9n))).toThrow(/too many unpaired messages/)
      for (let i = 0; i < max; i++) worker.receive(1, prompt)
      expect(() => worker.receive(1, prompt)).toThrow(/too many unpaired messages/)
    },
  )

  it('a step that throws - ends its own sequence, the others continue', () => {
    const faults: unknown[] = []
    const sent: bigint[] = []
    const worker = new BoostrDecodeWorker({
      link: {
        send: (_, frame) => {
          if (frame.tag === 35) sent.push(new DataView(frame.payload.buffer).getBigInt64(8, true))
        },
        reset: () => undefined,
      },
      clock: new ManualClock(),
      decodeStep: (kv, last, position) => {
        if (kv.length === 16) throw new Error('bad block')
        return decodeStep(kv, last, position)
      },
      maxKvTransferBytes: 1e6,
      peers: 'baton',
      kvWaitMs: 1_000,
      onFault: (thrown) => faults.push(thrown),
    })
    for (const [requestId, prompt] of [
      [1n, [4n]],
      [2n, [1n, 2n]],
    ] as const) {
      const tokenIds = BigInt64Array.from(prompt)
      const envelope = { startPosition: prompt.length, routerRank: 0, requestId, lastToken: 0n }
      for (const frame of encodeKvCache(wrapKv(envelope, kvOf(tokenIds))))
        worker.receive(100, frame)
      worker.receive(0, encodeBoostr({ kind: 'decode-request', requestId, maxNewTokens: 3 }))
    }
    for (let i = 0; i < 5; i++) worker.step()
    expect([faults.length, worker.failedCount, worker.load]).toEqual([1, 1, 0])
    expect(sent).toEqual([...singleNode([1n, 2n], 3), -1n])
  })

  it.each(['waits', 'arrives'] as const)(
    'KV without an id while another one %s - is not guessed, and the next request is right',
    (other) => {
      const sent: BoostrFrame[] = []
      const worker = new BoostrDecodeWorker({
        link: { send: (_, frame) => sent.push(frame), reset: () => undefined },
        clock: new ManualClock(),
        decodeStep,
        maxKvTransferBytes: 1e6,
        peers: 'boostr',
        kvWaitMs: 1_000,
      })
      const receiveKv = (fromRank: number, frames: readonly BoostrFrame[]): void => {
        for (const frame of frames) worker.receive(fromRank, frame)
      }
      const request = (requestId: bigint): void => {
        worker.receive(0, encodeBoostr({ kind: 'decode-request', requestId, maxNewTokens: 3 }))
        for (let i = 0; i < 5; i++) worker.step()
      }
      // Of a request that nobody waits for any more.
      receiveKv(100, encodeKvCache(kvOf(BigInt64Array.of(8n, 9n))))
      const [header, payload] = encodeKvCache(kvOf(BigInt64Array.of(1n, 2n)))
      receiveKv(101, other === 'waits' ? [header, payload] : [header])
      request(1n)
      expect([worker.refusedCount, worker.load]).toEqual([1, 0])
      receiveKv(101, other === 'waits' ? [header, payload] : [payload])
      sent.length = 0
      request(2n)
      const tokens = sent.map((frame) => new DataView(frame.payload.buffer).getBigInt64(8, true))
      expect(tokens).toEqual([...singleNode([1n, 2n], 3), -1n])
    },
  )

  it('KV without an id whose request comes after its end - another KV is not used for it', () => {
    const clock = new ManualClock()
    const tags: number[] = []
    const worker = new BoostrDecodeWorker({
      link: { send: (_, frame) => tags.push(frame.tag), reset: () => undefined },
      clock,
      decodeStep,
      maxKvTransferBytes: 1e6,
      peers: 'boostr',
      kvWaitMs: 1_000,
    })
    const receiveKv = (fromRank: number, ...tokens: bigint[]): void => {
      for (const frame of encodeKvCache(kvOf(BigInt64Array.from(tokens))))
        worker.receive(fromRank, frame)
    }
    const request = (requestId: bigint): void => {
      worker.receive(0, encodeBoostr({ kind: 'decode-request', requestId, maxNewTokens: 3 }))
      for (let i = 0; i < 5; i++) worker.step()
    }
    receiveKv(100, 1n, 2n)
    clock.advance(1_500)
    expect(worker.load).toBe(0)
    receiveKv(101, 8n, 9n)
    request(1n)
    expect([worker.refusedCount, tags]).toEqual([1, [33, 33]])
    receiveKv(100, 3n, 4n)
    clock.advance(2_000)
    receiveKv(101, 5n, 6n)
    request(2n)
    expect([worker.refusedCount, tags.includes(35)]).toEqual([1, true])
  })

  it.each(['baton', 'boostr'] as const)(
    'a node that is closed before its connections (%s peers) - leaves no timer that keeps its process',
    (peers) => {
      const clock = new ManualClock()
      const link = { send: () => undefined, reset: () => undefined }
      const config = createDisaggConfig({
        prefillWorkers: [100],
        decodeWorkers: [200],
        routerRank: 0,
        maxKvTransferBytes: 1e6,
      })
      const limits = { prefillMs: 100, tokenMs: 100, queueMax: 10, affinityMax: 10 }
      const router = new BoostrRouter({ link, clock, config, peers, ...limits })
      const reply = { onToken: () => undefined, onDone: () => undefined, onError: () => undefined }
      for (let i = 0; i < 3; i++) {
        router.routeRequest({ tokenIds: BigInt64Array.of(1n), maxNewTokens: 1 }, reply)
      }
      const prefill = new BoostrPrefillWorker({
        link,
        clock,
        prefill: (_, done) => done(new Uint8Array(8)),
        decodeWorkers: [200],
        maxKvTransferBytes: 1e6,
        peers,
        ackMs: 500,
        parkedMax: 10,
      })
      const request = { kind: 'prefill-request', requestId: 1n, seqLen: 1 } as const
      prefill.receive(0, encodeBoostr({ ...request, decodeRank: 200 }))
      prefill.receive(0, encodeBoostr({ kind: 'activation', tokenIds: BigInt64Array.of(1n) }))
      for (const node of [router, prefill]) {
        node.close()
        for (const rank of [0, 100, 200]) node.peerGone(rank)
      }
      expect(clock.timerCount).toBe(0)
    },
  )
})
