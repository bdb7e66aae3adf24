/** The main door of the package: what an application that embeds Baton needs. */
export { BatonError, ERROR_CODES } from './base/index.ts'
export type { ErrorCode } from './base/index.ts'
export type { Chunk, GenerateRequest, WorkerCard } from './request/index.ts'
export type { Engine } from './engine/index.ts'
