/** Engines that throw where nobody expects it: the kit names the rule of the part that threw. */
import { expect, it } from 'vitest'
import { tokenChunk } from '../../request/index.ts'
import type { Engine } from '../engine.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'
import { SoundEngine, items, life, replaced } from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'

function refuse(): never {
  throw new Error('no')
}

const getter = (name: keyof Engine): Broken => ({
  make: (clock) => Object.defineProperty(new SoundEngine(clock), name, { get: refuse }),
})
const next = (result: () => unknown): Broken =>
  replaced(() => ({ [Symbol.asyncIterator]: () => ({ next: async () => result() }) }) as never)
/** Of an engine that conforms, but for how its streams are closed. */
const closing = (close: () => unknown): Broken => ({
  make: (clock) => {
    const engine: Engine = new SoundEngine(clock)
    const generate = engine.generate.bind(engine)
    engine.generate = (request, context) => {
      const stream = generate(request, context)[Symbol.asyncIterator]()
      const iterator = { next: () => stream.next(), return: close }
      return { [Symbol.asyncIterator]: () => iterator } as never
    }
    return engine
  },
})
const hits = { name: 'hits_total', help: 'Hits', kind: 'counter', value: 1 }

it.each<[string, string, Broken]>([
  ['a getter of metrics', 'metrics-failed', getter('metrics')],
  ['a getter of kvBlocks', 'kv-blocks-invalid', getter('kvBlocks')],
  ['a getter of heldKv', 'kv-event-malformed', getter('heldKv')],
  ['a getter of drain', 'drain-failed', getter('drain')],
  ['a getter of abort', 'abort-failed', getter('abort')],
  ['a getter of isQuiescent', 'quiescence-wrong', getter('isQuiescent')],
  ['a getter of observe', 'observe-failed', getter('observe')],
  ['a getter of healthCheckPayload', 'health-check-failed', getter('healthCheckPayload')],
  ['a getter of start', 'start-failed', getter('start')],
  ['a getter of generate', 'error-untyped', getter('generate')],
  ['a getter of cleanup', 'cleanup-failed', getter('cleanup')],
  [
    'a getter of a metric',
    'metrics-invalid',
    life({
      metrics: () => [Object.defineProperty({ ...hits }, 'value', { get: refuse })] as never,
    }),
  ],
  [
    'a list of KV events',
    'kv-event-malformed',
    life({
      observe: (observer) => observer.kvEvents(0, new Proxy([{}], { get: refuse }) as never),
    }),
  ],
  [
    'a load report',
    'load-report-invalid',
    life({ observe: (observer) => observer.load(new Proxy({}, { get: refuse }) as never) }),
  ],
  [
    'the value of an item',
    'error-untyped',
    next(() => Object.defineProperty({ done: false }, 'value', { get: refuse })),
  ],
  [
    'whether an item is the last',
    'error-untyped',
    next(() => Object.defineProperty({}, 'done', { get: refuse })),
  ],
  ['the closing of a stream', 'drop-not-observed', closing(refuse)],
  ['the closing of a stream, later', 'drop-not-observed', closing(async () => refuse())],
])('%s throws - %s', async (_name, rule, broken) => {
  expect(await rulesBrokenBy(broken)).toEqual([rule])
})

it('the value of one item throws, and other items follow - is an error, not an item too many', async () => {
  let isFirst = true
  const broken = next(() => {
    const item = { done: false, value: tokenChunk(1) }
    if (!isFirst) return item
    isFirst = false
    return Object.defineProperty(item, 'value', { get: refuse })
  })
  expect(await rulesBrokenBy(broken)).toContain('error-untyped')
  expect(await rulesBrokenBy(broken)).not.toContain('item-after-terminal')
})

it('the end of a stream whose value throws - is not read, as by a worker', async () => {
  const broken = items(async function* (sound) {
    yield* sound()
  })
  const { make } = broken
  const wrapped: Broken = {
    make: (clock) => {
      const engine = make(clock)
      const generate = engine.generate.bind(engine)
      engine.generate = (request, context) => {
        const stream = generate(request, context)[Symbol.asyncIterator]()
        const read = async (): Promise<unknown> => {
          const item = await stream.next()
          return item.done === true
            ? Object.defineProperty({ done: true }, 'value', { get: refuse })
            : item
        }
        const iterator = { next: read, return: () => stream.return?.() }
        return { [Symbol.asyncIterator]: () => iterator } as never
      }
      return engine
    },
  }
  expect(await rulesBrokenBy(wrapped)).toEqual([])
})

it('a stream that closes without a promise - is closed', async () => {
  expect(await rulesBrokenBy(closing(() => 5))).toEqual([])
})
