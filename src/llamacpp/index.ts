/**
 * Room `llamacpp`: an `Engine` on llama.cpp.
 *
 * Owns the native library, model and context, the step loop, the KV state per block, sampling and grammar calls.
 * May use: base, request, kv, text, engine, os. For: `cli` (`--engine llamacpp`) and programs that embed Baton.
 */
export { LlamaCppEngine } from './llamacpp-engine.ts'
export type { LlamaCppOptions } from './model/llamacpp-options.ts'
