/** From a path to a model that is ready to compute: checked file, context, layout of its KV, identity. */
import { BatonError } from '../../../base/index.ts'
import { ADDON_VERSION, listenToNativeLog } from './bindings.ts'
import type { NativeBindings, NativeModel } from './bindings.ts'
import { decodesAlikeTogether } from './decode-probe.ts'
import type { LlamaCppConfig } from './llamacpp-options.ts'
import { inspectModelFile } from './model-file.ts'
import type { ModelFile } from './model-file.ts'
import { NativeSession } from './native-session.ts'
import { layoutText } from './state-layout.ts'

export interface LoadedModel {
  readonly file: ModelFile
  readonly session: NativeSession
  readonly contextLength: number
  readonly endTokens: ReadonlySet<number>
  /** Any token that the model can take. */
  readonly probeToken: number
  readonly fingerprint: string
  readonly decodesTogether: boolean
}

/** Longer contexts cost memory for every sequence; whoever wants one says so. */
const CONTEXT_DEFAULT_MAX = 8192

export async function loadModel(
  bindings: NativeBindings,
  config: LlamaCppConfig,
): Promise<LoadedModel> {
  const file = inspectModelFile(config.modelPath)
  const model = await openModel(bindings, config)
  const contextLength =
    config.contextSize ?? Math.min(model.getTrainContextSize(), CONTEXT_DEFAULT_MAX)
  const isExact = config.batching === 'exact'
  const session = await NativeSession.open(bindings, model, { ...config, contextLength, isExact })
  try {
    const endTokens = new Set<number>()
    for (let token = 0; token < file.vocabSize; token++) {
      if (model.isEogToken(token)) endTokens.add(token)
    }
    const probeToken = Math.max(0, model.tokenBos())
    await session.probeLayout(probeToken)
    const layout = session.layout === undefined ? 'none' : layoutText(session.layout)
    return {
      file,
      session,
      contextLength,
      endTokens,
      probeToken,
      fingerprint: `llamacpp-${ADDON_VERSION}/${file.identity}/${config.blockTokens}/${layout}`,
      decodesTogether: !isExact || (await decodesAlikeTogether(session, config, probeToken)),
    }
  } catch (error) {
    await session.close()
    throw error
  }
}

async function openModel(bindings: NativeBindings, config: LlamaCppConfig): Promise<NativeModel> {
  const complaints: string[] = []
  const stop = listenToNativeLog((message) => complaints.push(message.trim()))
  try {
    const model = new bindings.AddonModel(config.modelPath, {
      addonExports: bindings,
      gpuLayers: config.gpuLayers,
      useMmap: true,
    })
    if (await model.init()) return model
    throw new Error('llama.cpp refused it')
  } catch (cause) {
    const why = [String((cause as Error).message), ...complaints].join('; ')
    throw new BatonError(
      'model.load_failed',
      `llama.cpp cannot load the model file ${config.modelPath}: ${why}`,
      { cause, data: { path: config.modelPath } },
    )
  } finally {
    stop()
  }
}
