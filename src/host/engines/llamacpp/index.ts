/** The llama.cpp engine. */
export { LlamaCppEngine } from './llamacpp-engine.ts'
export type { LlamaCppOptions } from './llamacpp-options.ts'
