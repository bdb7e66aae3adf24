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
] as const)('an engine config with %s %s', (field, value, fault) => {
  const config = { model: 'm', [field]: value } as unknown as EngineConfig
  expect(engineConfigFault(config)?.field ?? null).toBe(fault)
})
