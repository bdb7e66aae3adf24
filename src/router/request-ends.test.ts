import fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { buildModel, offerOf } from '../../test/router/model-fixture.ts'
import { card, RecordingSink, request } from '../../test/router/scripted-plane.ts'
import type { ScriptedCall } from '../../test/router/scripted-plane.ts'
import { workerIdOf } from '../base/index.ts'
import type { KvOffer, RequestHandle } from '../request/index.ts'

const bootstrap = { engine: { bootstrapHost: 'h', bootstrapPort: 1 } }
const CARDS = [
  card(1, 'prefill'),
  card(2, 'prefill', bootstrap),
  card(3, 'decode'),
  card(4, 'decode'),
]

const action = fc.oneof(
  fc.record({
    kind: fc.constant('send' as const),
    tokens: fc.integer({ min: 1, max: 40 }),
    session: fc.option(fc.constantFrom('a', 'b'), { nil: undefined }),
  }),
  fc.record({
    kind: fc.constantFrom(
      'token',
      'token',
      'finish',
      'prefilled',
      'prefilled',
      'length',
      'unreachable',
      'fault',
      'stop',
      'kill',
    ),
    which: fc.nat(30),
  }),
  fc.record({ kind: fc.constant('time' as const), ms: fc.integer({ min: 1, max: 400 }) }),
  fc.record({
    kind: fc.constantFrom('leave' as const, 'join' as const),
    worker: fc.integer({ min: 1, max: 4 }),
  }),
)

describe('requests over a whole model router', () => {
  it('any interleaving of ends - each sink ends once, load, queue and timers return to zero', () => {
    fc.assert(
      fc.property(
        fc.array(action, { maxLength: 60, size: 'max' }),
        fc.boolean(),
        (actions, enforce) => {
          const { plane, clock, router, load } = buildModel(CARDS, {
            enforceDisaggregation: enforce,
            queueThreshold: 0.02,
            trackOutputBlocks: true,
            session: { ttlSeconds: 5 },
            deadlines: {
              queueMs: 300,
              prefillMs: 500,
              firstTokenMs: 500,
              streamIdleMs: 500,
              cancelMs: 100,
            },
          })
          const open: { sink: RecordingSink; handle: RequestHandle }[] = []
          const offers = new Offers()
          for (const step of actions) {
            switch (step.kind) {
              case 'send': {
                const sink = new RecordingSink()
                const routing = step.session === undefined ? {} : { sessionId: step.session }
                const handle = router.service.send(request(step.tokens, routing), sink)
                open.push({ sink, handle })
                break
              }
              case 'time':
                clock.advance(step.ms)
                break
              case 'leave':
                router.fleet.workerLeft(workerIdOf(step.worker), 'test')
                break
              case 'join':
                router.fleet.workerJoined(CARDS[step.worker - 1] ?? card(1))
                break
              case 'stop':
              case 'kill':
                open[step.which % Math.max(open.length, 1)]?.handle.cancel(step.kind)
                break
              default: {
                const call = plane.calls[step.which % Math.max(plane.calls.length, 1)]
                if (call !== undefined) play(call, step.kind, offers)
              }
            }
            for (const { sink } of open) expect(sink.ends).toBeLessThanOrEqual(1)
          }
          // A worker that never responds again is handled by the deadlines.
          clock.advance(10_000)
          for (const { sink } of open) expect(sink.ends).toBe(1)
          expect(load()).toBe(0)
          const { prefill, decode } = router.status()
          expect(prefill.queuedRequests + decode.queuedRequests).toBe(0)
          expect(clock.timerCount).toBe(0)
          const fetched = plane.calls.flatMap(({ request: { prefillResult } }) => {
            const offer = prefillResult?.kvOffer
            return offer === undefined ? [] : [offer.offerId]
          })
          const released = plane.released.map((text) => text.split(' ')[1])
          for (const id of offers.taken) expect([...fetched, ...released]).toContain(id)
          expect(new Set(released).size).toBe(released.length)
        },
      ),
      { numRuns: 300 },
    )
  })
})

/** KV that prefill workers hold for a decode worker. */
class Offers {
  /** Chunks that arrived while their leg was alive. */
  readonly taken: string[] = []
  readonly #ended = new Set<ScriptedCall>()
  readonly #live = new Set<string>()
  #count = 0

  /** The call ends now, possibly with an offer. */
  make(call: ScriptedCall): KvOffer {
    const offerId = `o${this.#count++}`
    if (!this.#ended.has(call) && !call.cancels.includes('kill')) this.#live.add(offerId)
    this.#ended.add(call)
    return offerOf(offerId)
  }

  given({ offerId }: KvOffer): void {
    if (this.#live.has(offerId)) this.taken.push(offerId)
  }
}

function play(call: ScriptedCall, kind: string, offers: Offers): void {
  if (kind === 'token') {
    call.token()
    return
  }
  const kvOffer = offers.make(call)
  if (kind === 'prefilled' && call.request.stop.maxTokens === 1) {
    offers.given(kvOffer)
    call.prefilled({ kvOffer })
  } else if (kind === 'prefilled') call.prefilled()
  else if (kind === 'finish') call.finish()
  else if (kind === 'length') call.finish('length')
  else if (kind === 'unreachable') call.fail('transport.disconnected')
  else call.fail('backend.unknown')
}
