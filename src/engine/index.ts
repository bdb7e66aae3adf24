/** Room `engine`: the contract, what checks it, and the simulated engine. */
export type { Engine, EngineObserver } from './engine.ts'
export { RequestContext } from './generate-context.ts'
export type { GenerateContext } from './generate-context.ts'
export type { KvBlockSource, KvPin } from './kv-block-source.ts'
