/**
 * Creates the engine that a worker runs from the configuration.
 */
import { BatonError } from '../../base/index.ts'
import { createSchedulerConfig, SimEngine } from '../../simengine/index.ts'
import type { Engine } from '../../engine/index.ts'
import type { MockEngineOptions } from '../../simengine/index.ts'
import { BootstrapRooms, loadModelText, ZmqKvBroadcast } from '../../host/index.ts'
import { LlamaCppEngine } from '../../llamacpp/index.ts'
import { osClock } from '../../os/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { ModelText, Tokenizer } from '../../text/index.ts'
import { isModulePath } from '../options/option-values.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { guidedScript } from './guided-script.ts'
import { loadUserEngine } from './load-user-engine.ts'
import { createSidecarEngine } from './sidecar-engine.ts'

export interface CreatedEngine {
  readonly engine: Engine
  /**
   * Returns, once, the text side of the model at a path if it was already read, because the worker's card is made of the
   * same files.
   */
  readonly takeModelText?: (modelPath: string) => ModelText | null
  /** The chat template of an engine with its own, after its start. */
  readonly engineTemplate?: () => string | null
}

export async function createEngine(
  config: ServeConfig,
  mode: DisaggregationMode,
): Promise<CreatedEngine> {
  if (isModulePath(config.engine)) return await createUserEngine(config, mode)
  switch (config.engine) {
    case 'sim':
      return await createSim(config, mode)
    case 'llamacpp':
      return await createLlamaCpp(config, mode)
    default: {
      const engine = createSidecarEngine(config, mode)
      return { engine, engineTemplate: () => engine.chatTemplate }
    }
  }
}

/** Releases the text after the first call: a vocabulary takes tens of megabytes. */
function once(text: ModelText, path: string): (modelPath: string) => ModelText | null {
  let kept: ModelText | null = text
  return (modelPath) => {
    const given = kept
    kept = null
    return modelPath === path ? given : null
  }
}

/** Its model is read first: a worker whose tokenizer cannot be compared would join unchecked. */
async function createUserEngine(
  config: ServeConfig,
  mode: DisaggregationMode,
): Promise<CreatedEngine> {
  const text = await loadModelText(config.model)
  const engine = await loadUserEngine(config, mode)
  return { engine, takeModelText: once(text, config.model) }
}

async function createLlamaCpp(
  config: ServeConfig,
  mode: DisaggregationMode,
): Promise<CreatedEngine> {
  const { model, engine: engineName, contextLength, batchSize, gpu, ...rest } = config
  const text = await loadModelText(model)
  const { ggufPath, name } = text
  if (ggufPath === null) {
    throw new BatonError(
      'config.invalid',
      `--model ${model}: ${engineName} reads GGUF files and found none there; give a GGUF file, or use --engine sim`,
    )
  }
  const { sequences, threads, gpuLayers, kvStoreBytes, servedModelName } = rest
  const { batching, blockSize, microBatch, flashAttention, kvType } = rest
  const engine = new LlamaCppEngine({
    modelPath: ggufPath,
    modelName: servedModelName ?? name,
    mode,
    sequences,
    threads,
    gpuLayers,
    kvStoreBytes,
    batching,
    blockTokens: blockSize,
    microBatch,
    flashAttention,
    kvType,
    gpu: gpu === 'off' ? false : gpu,
    prefillChunk: batchSize,
    ...(contextLength === null ? {} : { contextSize: contextLength }),
  })
  // The files of a folder may describe another model than its GGUF file, and the engine reports the GGUF as its
  // model: then, the text is not that of the reported path.
  return { engine, takeModelText: once(text, model) }
}

async function createSim(config: ServeConfig, mode: DisaggregationMode): Promise<CreatedEngine> {
  const text = await loadModelText(config.model)
  const { mode: wanted = mode, ...sim } = config.sim ?? {}
  if (wanted !== mode) {
    throw new BatonError(
      'config.invalid',
      `--sim-args: worker_type ${wanted} contradicts --mode ${mode}: leave worker_type out`,
    )
  }
  const isSaid = config.contextLength !== null || sim.maxModelLength !== undefined
  const contextLength = isSaid ? config.contextLength : contextThatFits(sim, text.contextLength)
  const engine = new SimEngine({
    clock: osClock,
    mode,
    model: config.servedModelName ?? text.name,
    modelPath: config.model,
    tokenRange: ordinaryTokens(text.tokenizer),
    guidedScript: guidedScript(text.tokenizer),
    bootstrap: new BootstrapRooms(config.workerHost),
    kvBroadcast: new ZmqKvBroadcast({ host: config.workerHost }),
    ...(contextLength === null ? {} : { contextLength }),
    ...sim,
  })
  return { engine, takeModelText: once(text, config.model) }
}

/**
 * The maximum tokens of a request that names none is the whole context; a small simulated cache must not refuse
 * such a request.
 */
function contextThatFits(sim: MockEngineOptions, modelsOwn: number | null): number {
  const { blockCount, blockTokens } = createSchedulerConfig(sim)
  return Math.min(modelsOwn ?? 8192, blockCount * blockTokens)
}

/** Ids of tokens that are plain words, so that simulated answers look like text and cost as much as text. */
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
