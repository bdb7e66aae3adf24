/**
 * The engine that a worker runs, made from the configuration.
 */
import { BatonError } from '../base/index.ts'
import { SimEngine } from '../engine/index.ts'
import type { Engine } from '../engine/index.ts'
import { LlamaCppEngine, loadModelText, osClock } from '../host/index.ts'
import type { DisaggregationMode } from '../request/index.ts'
import type { Tokenizer } from '../text/index.ts'
import type { ServeConfig } from './serve-config.ts'

export async function createEngine(config: ServeConfig, mode: DisaggregationMode): Promise<Engine> {
  return config.engine === 'sim' ? await createSim(config, mode) : createLlamaCpp(config, mode)
}

function createLlamaCpp(config: ServeConfig, mode: DisaggregationMode): Engine {
  if (!config.model.toLowerCase().endsWith('.gguf')) {
    throw new BatonError(
      'config.invalid',
      `--model ${config.model}: llama.cpp reads GGUF files; give one, or use --engine sim for a Hugging Face folder`,
    )
  }
  const { modelPath, servedModelName, contextLength, batchSize, ...rest } = {
    ...config,
    modelPath: config.model,
  }
  const { sequences, threads, gpuLayers, kvStoreBytes, gpu } = rest
  return new LlamaCppEngine({
    modelPath,
    mode,
    sequences,
    threads,
    gpuLayers,
    kvStoreBytes,
    gpu: gpu === 'off' ? false : gpu,
    prefillChunk: batchSize,
    ...(servedModelName === null ? {} : { modelName: servedModelName }),
    ...(contextLength === null ? {} : { contextSize: contextLength }),
  })
}

async function createSim(config: ServeConfig, mode: DisaggregationMode): Promise<Engine> {
  const text = await loadModelText(config.model)
  return new SimEngine({
    clock: osClock,
    mode,
    model: config.servedModelName ?? text.name,
    modelPath: config.model,
    seed: config.simSeed,
    tokenRange: ordinaryTokens(text.tokenizer),
    contextLength: config.contextLength ?? text.contextLength ?? 8192,
    speedupRatio: config.simSpeedup === 0 ? 'instantaneous' : config.simSpeedup,
    maxSequences: config.sequences,
    blockTokens: 16,
  })
}

/** Ids that are plain words, so that simulated answers look like text and cost what text costs. */
function ordinaryTokens(tokenizer: Tokenizer): Uint32Array {
  const ids: number[] = []
  for (let id = 0; id < tokenizer.vocabSize && ids.length < 4096; id++) {
    if (tokenizer.isSpecial(id)) continue
    const bytes = tokenizer.tokenBytes(id)
    if (bytes.length >= 3 && bytes.every(isLetterOrBlank)) ids.push(id)
  }
  return Uint32Array.from(ids.length > 0 ? ids : [Math.min(1, tokenizer.vocabSize - 1)])
}

function isLetterOrBlank(byte: number, index: number): boolean {
  return (byte >= 0x61 && byte <= 0x7a) || (index === 0 && byte === 0x20)
}
