/** Engines that say that they are unavailable get no requests until they are back, as in a worker. */
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import type { Chunk, EngineConfig, GenerateRequest } from '../../request/index.ts'
import type { EngineObserver } from '../engine.ts'
import type { GenerateContext } from '../generate-context.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'
import { SoundEngine, life, make } from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'

const away = new BatonError('backend.worker_unavailable', 'the device is resetting')

/** Refuses every request while it is away; `plan` decides when that is. */
class AwayEngine extends SoundEngine {
  isAway = false
  tell: (reason: BatonError | null) => void = () => undefined

  observe(observer: EngineObserver): void {
    // Without `?.`: an engine in JavaScript calls what the documentation names.
    this.tell = (reason) => (observer as Required<EngineObserver>).unavailable(reason)
  }

  leave(forMs: number): void {
    this.isAway = true
    this.tell(away)
    this.clock.after(forMs, () => {
      this.isAway = false
      this.tell(null)
    })
  }

  override async *items(request: GenerateRequest, context: GenerateContext): AsyncGenerator<Chunk> {
    if (this.isAway && this.isRunning) throw away
    yield* super.items(request, context)
  }
}

const awayFromStart = (forMs: number): Broken => ({
  make: (clock) =>
    new (class extends AwayEngine {
      override observe(observer: EngineObserver): void {
        super.observe(observer)
        this.leave(forMs)
      }
    })(clock),
})
/** Leaves after each stream, and ends those that run. */
const awayOften = make(
  () =>
    class extends AwayEngine {
      override async *generate(
        ...call: Parameters<SoundEngine['generate']>
      ): AsyncGenerator<Chunk> {
        yield* super.generate(...call)
        if (!this.isAway && this.isRunning && this.live === 0) this.leave(50)
      }
    },
)
const embeds = make(
  () =>
    class extends AwayEngine {
      override async start(): Promise<EngineConfig> {
        return { ...(await super.start()), features: ['embeddings'] }
      }

      async embed(): Promise<Float32Array> {
        if (this.isAway) throw away
        this.leave(50)
        return Float32Array.of(1, 2)
      }
    },
)

describe('runConformance - unavailable engines', () => {
  it.each<[string, Broken]>([
    [
      'unavailable and available at once',
      life({
        observe: (observer) => {
          const { unavailable } = observer as Required<EngineObserver>
          unavailable(away)
          unavailable(null)
        },
      }),
    ],
    ['unavailable for 3 s after its start', awayFromStart(3000)],
    ['unavailable after each stream', awayOften],
    ['unavailable after each embedding', embeds],
  ])('%s - passes', async (_name, engine) => {
    expect(await rulesBrokenBy(engine)).toEqual([])
  })

  it('unavailable for longer than the deadline - is reported', async () => {
    expect(await rulesBrokenBy(awayFromStart(10 ** 6))).toEqual(['generate-failed'])
  })
})
