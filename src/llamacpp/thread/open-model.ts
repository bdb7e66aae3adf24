/** Opens a model so that it is ready to compute: library, context, layout of its KV, shape of its steps. */
import { BatonError } from '../../base/index.ts'
import { contextFault, memoryForContexts } from '../model/context-memory.ts'
import { inspectModelFile } from '../model/model-file.ts'
import { EmbeddingContext } from '../native/embedding-context.ts'
import { findLibraries } from '../native/library-files.ts'
import { loadLlamaApi } from '../native/llama-api.ts'
import type { LlamaApi } from '../native/llama-api.ts'
import { LlamaSession } from '../native/llama-session.ts'
import { bestToken } from '../native/logits.ts'
import type { SessionOptions } from '../native/llama-session.ts'
import type { Pointer } from '../native/llama-structs.ts'
import { KV_TYPES } from '../model/llamacpp-options.ts'
import type { LlamaCppConfig } from '../model/llamacpp-options.ts'
import { parseState } from '../state/state-codec.ts'
import type { KvLayout } from '../state/state-layout.ts'
import { decodesAlikeTogether } from './decode-probe.ts'

export interface OpenModel {
  readonly session: LlamaSession
  readonly contextLength: number
  readonly endTokens: ReadonlySet<number>
  /** Any valid token of the model. */
  readonly probeToken: number
  /** Undefined: the KV of this model cannot be split into blocks. */
  readonly layout: KvLayout | undefined
  readonly batching: 'exact' | 'throughput'
  /**
   * True: all sequences decode in one batch; false: one after the other, because a batch would change the numbers.
   */
  readonly decodesTogether: boolean
  readonly openEmbeddings: () => EmbeddingContext
  close(): void
}

/** Longer contexts cost memory for every sequence and must be requested. */
const CONTEXT_DEFAULT_MAX = 8192

/** Throws `model.load_failed`. */
export function openModel(config: LlamaCppConfig): OpenModel {
  const file = inspectModelFile(config.modelPath)
  const api = loadLlamaApi(findLibraries(config.gpu), file.heads)
  const model = loadFile(api, config)
  let session: LlamaSession | undefined
  try {
    const contextLength =
      config.contextSize ?? Math.min(api.trainContext(model), CONTEXT_DEFAULT_MAX)
    const kvType = KV_TYPES[config.kvType]
    checkMemory(config, contextLength, file.kvElements)
    const settings = { ...config, contextLength, kvType }
    const tried = { isExact: config.batching !== 'throughput', dropsTokens: true }
    session = new LlamaSession(api, model, { ...settings, ...tried })
    const shape = shapeOf(session, config, contextLength, api)
    const dropsTokens = shape.layout !== undefined
    const found = { isExact: dropsTokens && shape.batching === 'exact', dropsTokens }
    if (found.isExact !== tried.isExact || !dropsTokens) {
      session.close()
      session = new LlamaSession(api, model, { ...settings, ...found })
    }
    return ready(api, model, session, { ...shape, config, settings })
  } catch (error) {
    session?.close()
    api.freeModel(model)
    throw error
  }
}

/** With a GPU the KV may be in its own memory. */
function checkMemory(config: LlamaCppConfig, contextLength: number, kvElements?: number): void {
  if (config.gpu !== false) return
  const fault = contextFault({ ...config, contextLength }, kvElements, memoryForContexts())
  if (fault !== null) throw new BatonError('model.load_failed', fault)
}

interface Shape {
  readonly layout: KvLayout | undefined
  readonly batching: 'exact' | 'throughput'
  readonly decodesTogether: boolean
  readonly probeToken: number
}

function ready(
  api: LlamaApi,
  model: Pointer,
  session: LlamaSession,
  made: Shape & {
    readonly config: LlamaCppConfig
    readonly settings: Omit<SessionOptions, 'isExact' | 'dropsTokens'>
  },
): OpenModel {
  const { contextLength } = made.settings
  const endTokens = new Set<number>()
  for (let token = 0; token < session.vocabSize; token++) {
    if (api.isEndToken(session.vocab, token)) endTokens.add(token)
  }
  return {
    ...made,
    session,
    contextLength,
    endTokens,
    openEmbeddings: () => new EmbeddingContext(api, model, { ...made.config, contextLength }),
    close: () => {
      session.close()
      api.freeModel(model)
    },
  }
}

/**
 * Computes one token and inspects its KV. This also takes the slow first step, so that no request has to wait for
 * it.
 */
function shapeOf(
  session: LlamaSession,
  config: LlamaCppConfig,
  contextLength: number,
  api: LlamaApi,
): Shape {
  const probeToken = Math.max(0, api.beginToken(session.vocab))
  session.decode([{ sequence: 0, position: 0, token: probeToken, wantsLogits: true }])
  if (bestToken(session.logits) < 0)
    throw new BatonError(
      'model.load_failed',
      `the model file ${config.modelPath} produces no valid numbers: its weights or its settings are damaged`,
      { data: { path: config.modelPath } },
    )
  const layout = layoutOf(session)
  session.clearSequence(0)
  if (config.batching === 'throughput')
    return { layout, batching: 'throughput', decodesTogether: true, probeToken }
  const { sequences } = config
  const isProven =
    layout !== undefined &&
    config.gpu === false &&
    decodesAlikeTogether(session, { sequences, contextLength, layout, token: probeToken })
  if (isProven || config.batching === 'exact')
    return { layout, batching: 'exact', decodesTogether: isProven, probeToken }
  return { layout, batching: 'throughput', decodesTogether: true, probeToken }
}

function layoutOf(session: LlamaSession): KvLayout | undefined {
  try {
    return parseState(session.saveState(0)).layout
  } catch (error) {
    if (error instanceof BatonError) return undefined
    throw error
  }
}

function loadFile(api: LlamaApi, config: LlamaCppConfig): Pointer {
  const params = api.modelDefaults()
  params.n_gpu_layers = config.gpu === false ? 0 : config.gpuLayers
  const model = api.loadModel(config.modelPath, params)
  if (model !== null) return model
  throw new BatonError(
    'model.load_failed',
    `llama.cpp cannot load the model file ${config.modelPath}: its architecture or one of its tensors is not supported`,
    { data: { path: config.modelPath } },
  )
}
