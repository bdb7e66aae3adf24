import { expect, it } from 'vitest'
import type { EngineConfig } from '../request/index.ts'
import { engineConfigFault } from './config-fault.ts'

const PACE = { promptMs: 5, promptTokenMs: 0.1, stepMs: 9, stepRequestMs: 0, stepContextTokenMs: 0 }

const CIRCLE: Record<string, unknown> = {}
CIRCLE['self'] = CIRCLE

it.each([
  ['dataParallelSize', 4096, null],
  ['dataParallelSize', 4097, 'dataParallelSize'],
  ['dataParallelSize', 1e9, 'dataParallelSize'],
  ['dataParallelSize', 0, 'dataParallelSize'],
  ['dataParallelStartRank', 65_535, null],
  ['dataParallelStartRank', 65_536, 'dataParallelStartRank'],
  ['dataParallelStartRank', Number.MAX_SAFE_INTEGER, 'dataParallelStartRank'],
  ['dataParallelStartRank', -1, 'dataParallelStartRank'],
  ['kvCacheBlockSize', 0, 'kvCacheBlockSize'],
  ['kvCacheBlockSize', 65_535, null],
  ['kvCacheBlockSize', 65_536, 'kvCacheBlockSize'],
  ['kvCacheBlockSize', 2.5, 'kvCacheBlockSize'],
  ['contextLength', NaN, 'contextLength'],
  ['contextLength', '4096', 'contextLength'],
  ['maxNumSeqs', 1n, 'maxNumSeqs'],
  ['bootstrapPort', 65_536, 'bootstrapPort'],
  ['features', ['logprobs', ''], 'features'],
  ['pace', { ...PACE, more: 'of another version' }, null],
  ['pace', { ...PACE, stepMs: -1 }, 'pace'],
  ['pace', { ...PACE, stepMs: 0 }, 'pace'],
  ['pace', { ...PACE, promptMs: 0, promptTokenMs: 0 }, 'pace'],
  ['pace', { ...PACE, promptTokenMs: Infinity }, 'pace'],
  ['pace', { promptMs: 5 }, 'pace'],
  ['pace', 5, 'pace'],
  ['modelAliases', 'one', 'modelAliases'],
  ['modelAliases', ['a\nb'], 'modelAliases'],
  ['servedModelName', 'Qwen 3 – größer', null],
  ['servedModelName', 'a\r\nb', 'servedModelName'],
  ['servedModelName', 'a'.repeat(1025), 'servedModelName'],
  ['model', '', 'model'],
  ['runtimeData', { a: [1, null, 'x'] }, null],
  ['runtimeData', 5, 'runtimeData'],
  ['runtimeData', null, 'runtimeData'],
  ['runtimeData', [], 'runtimeData'],
  ['runtimeData', { big: 1n }, 'runtimeData'],
  ['runtimeData', { f() {} }, 'runtimeData'],
  ['runtimeData', { map: new Map() }, 'runtimeData'],
  ['runtimeData', CIRCLE, 'runtimeData'],
  ['runtimeData', { text: 'x'.repeat(2 ** 20) }, 'runtimeData'],
  ['modelPath', 'x'.repeat(2 ** 20), 'runtimeData'],
  // Fields that Baton does not know are sent, too.
  ['builtBy', { name: 'x', at: [1, null], more: undefined }, null],
  ['builtBy', 1n, 'builtBy'],
  ['builtBy', { deep: [1n] }, 'builtBy'],
  ['builtBy', CIRCLE, 'builtBy'],
  ['builtBy', { toJSON: 'text' }, null],
  ['builtBy', { toJSON: () => 'text' }, 'builtBy'],
  ['builtBy', new Date(0), 'builtBy'],
] as const)('an engine config with %s %s', (field, value, fault) => {
  const config = { model: 'm', [field]: value } as unknown as EngineConfig
  expect(engineConfigFault(config)?.field ?? null).toBe(fault)
})

it.each([
  [{ model: '' }, 'model is "": expected one line of text, at most 1024 characters'],
  [{ model: 'a\nb' }, 'model is "a\\nb": expected one line of text, at most 1024 characters'],
  [{ model: undefined }, 'model is undefined: expected one line of text, at most 1024 characters'],
  [
    { model: 'x'.repeat(1025) },
    `model is "${'x'.repeat(100)}"… (1025 characters): expected one line of text, at most 1024 characters`,
  ],
  [
    { model: 'm', servedModelName: '' },
    'servedModelName is "": expected one line of text, at most 1024 characters',
  ],
  [
    { model: 'm', contextLength: '4096' },
    'contextLength is "4096": expected a whole number above 0',
  ],
  [{ model: 'm', contextLength: 0.5 }, 'contextLength is 0.5: expected a whole number above 0'],
  [{ model: 'm', bootstrapPort: '' }, 'bootstrapPort is ""'],
])('an implausible value (%#) - is shown by the fault', (config, detail) => {
  expect(engineConfigFault(config as unknown as EngineConfig)?.detail).toBe(detail)
})

it('a name of 1024 characters - no fault', () => {
  expect(engineConfigFault({ model: 'x'.repeat(1024) } as EngineConfig)).toBeNull()
})

const refuse = (): never => {
  throw new Error('no')
}
const WIDE = Array.from({ length: 40 }).reduce<unknown>((inner) => [inner, inner], 1)

it.each<[string, unknown, string, RegExp]>([
  [
    'a known field that throws',
    {
      model: 'm',
      get contextLength() {
        return refuse()
      },
    },
    'contextLength',
    /^contextLength cannot be read: no; /,
  ],
  [
    'an unknown field that throws',
    {
      model: 'm',
      get more() {
        return refuse()
      },
    },
    'more',
    /^more cannot be read: no; /,
  ],
  ['a list of lists that would be endless as JSON', { model: 'm', more: WIDE }, 'more', /^more\[/],
  [
    'a class with a getter that throws',
    new (class {
      model = 'm'
      get pace() {
        return refuse()
      }
    })(),
    'config',
    /cannot be read: no; /,
  ],
  ['a proxy that throws', new Proxy({}, { ownKeys: refuse }), 'config', /cannot be read: no; /],
  [
    'a conversion that throws',
    Object.assign(Object.create({ toJSON: refuse }) as object, { model: 'm' }),
    'config',
    /cannot be read: no; /,
  ],
])('an engine config with %s - is a fault in one line', (_name, config, field, detail) => {
  const fault = engineConfigFault(config as EngineConfig)
  expect(fault).toEqual({ field, detail: expect.stringMatching(detail) as string })
  expect(fault?.detail).not.toContain('\n')
})

it.each([
  [-1, null],
  [0, null],
  [1, 'runtimeData'],
])('an engine config of half a card and %i characters', (more, fault) => {
  const frame = JSON.stringify({ model: 'm', builtBy: '' }).length
  const config = { model: 'm', builtBy: 'x'.repeat(2 ** 19 - frame + more) } as EngineConfig
  expect(engineConfigFault(config)?.field ?? null).toBe(fault)
})
