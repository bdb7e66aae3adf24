import { expect, it } from 'vitest'
import type { EngineConfig } from '../request/index.ts'
import { engineConfigFault } from './config-fault.ts'

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
  ['kvCacheBlockSize', 2.5, 'kvCacheBlockSize'],
  ['contextLength', NaN, 'contextLength'],
  ['contextLength', '4096', 'contextLength'],
  ['maxNumSeqs', 1n, 'maxNumSeqs'],
  ['bootstrapPort', 65_536, 'bootstrapPort'],
  ['features', ['logprobs', ''], 'features'],
  ['modelAliases', 'one', 'modelAliases'],
] as const)('an engine config with %s %s', (field, value, fault) => {
  const config = { model: 'm', [field]: value } as unknown as EngineConfig
  expect(engineConfigFault(config)?.field ?? null).toBe(fault)
})
