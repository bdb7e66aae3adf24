/** Engines whose `abort` ends more than its request. */
import { describe, expect, it } from 'vitest'
import { make } from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'
import { BatonError } from '../../base/index.ts'
import type { Chunk, GenerateRequest } from '../../request/index.ts'
import type { GenerateContext } from '../generate-context.ts'

/** `wasRunning`: the aborted one. */
type Ends = (running: string, aborted: string, wasRunning: boolean) => boolean

/** Its `abort` ends the running streams for which `ends` is true. */
const aborting = (ends: Ends, delayTurns = 0): Broken =>
  make(
    (Base) =>
      class extends Base {
        readonly running = new Map<string, { isAborted: boolean }>()

        override async *items(
          request: GenerateRequest,
          context: GenerateContext,
        ): AsyncGenerator<Chunk> {
          const state = { isAborted: false }
          this.running.set(request.requestId, state)
          try {
            for await (const chunk of super.items(request, context)) {
              if (state.isAborted && !context.isStopped)
                throw new BatonError('backend.engine_shutdown', 'aborted')
              yield chunk
            }
          } finally {
            this.running.delete(request.requestId)
          }
        }

        override async abort(aborted = ''): Promise<void> {
          for (let i = 0; i < delayTurns; i++) await this.pause()
          for (const [running, state] of this.running)
            if (ends(running, aborted, this.running.has(aborted))) state.isAborted = true
        }
      },
  )

describe('runConformance - abort beside other streams', () => {
  it.each<[string, string, Ends]>([
    ['all streams', 'abort-failed', () => true],
    ['streams whose id begins with it', 'abort-failed', (id, given) => id.startsWith(given)],
    ['streams whose id begins alike', 'abort-failed', (id, given) => id.slice(0, 4) === given.slice(0, 4)], // prettier-ignore
    [
      'all streams, if its own one runs',
      'cancel-hurts-others',
      (_id, _given, wasRunning) => wasRunning,
    ],
  ])('an abort that ends %s - is reported as %s', async (_name, rule, ends) => {
    expect(await rulesBrokenBy(aborting(ends))).toEqual([rule])
  })

  it.each([0, 3])('an abort that ends its own stream, after %i turns - passes', async (turns) => {
    expect(await rulesBrokenBy(aborting((id, given) => id === given, turns))).toEqual([])
  })

  it('an engine with one place that refuses others, whose checks of streams at the same time are skipped - passes', async () => {
    const engine = make(
      (Base) =>
        class extends Base {
          override async *items(
            request: GenerateRequest,
            context: GenerateContext,
          ): AsyncGenerator<Chunk> {
            if (this.live > 1) throw new BatonError('capacity.exhausted', 'busy')
            yield* super.items(request, context)
          }

          override async abort(): Promise<void> {}
        },
    )
    const why = 'it has one place'
    const skip = { concurrent: why, mixed: why, 'concurrent-stop': why }
    expect(await rulesBrokenBy({ ...engine, options: { ...engine.options, skip } })).toEqual([])
  })
})
