/**
 * The native addon of node-llama-cpp, without its JavaScript.
 *
 * Why past the public door: the public classes decide the shape of every batch themselves and test the binary in a
 * forked process at each start (0.9 s here, against 0.1 s for the addon alone). Exact hand-over needs batches of our
 * own shape, so this file, and only this one, knows the addon's internal interface. The risk: it may change with any
 * release, therefore node-llama-cpp is pinned to an exact version, and `ADDON_VERSION` is compared at load.
 * With a GPU the public loader chooses the right binary and hands us the same interface.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { BatonError } from '../../../base/index.ts'

/** The version of node-llama-cpp whose addon this file describes. */
export const ADDON_VERSION = '3.22.1'

export type GpuChoice = false | 'auto' | 'cuda' | 'vulkan' | 'metal'

export interface NativeModel {
  init(): Promise<boolean>
  dispose(): Promise<void>
  getTrainContextSize(): number
  tokenBos(): number
  isEogToken(token: number): boolean
}

export interface NativeContext {
  init(): Promise<boolean>
  dispose(): Promise<void>
  initBatch(tokenCount: number): void
  addToBatch(
    sequence: number,
    position: number,
    tokens: Uint32Array,
    logitIndexes: Uint32Array,
  ): Uint32Array
  decodeBatch(): Promise<void>
  sampleToken(logitIndex: number, sampler: NativeSampler): Promise<number>
  sampleToken(
    logitIndex: number,
    sampler: NativeSampler,
    probabilities: boolean,
    confidence: boolean,
    logits: readonly [
      tokens: readonly number[],
      max: boolean,
      min: boolean,
      chosen: boolean,
      top: number,
    ],
    totalWeight: boolean,
  ): Promise<[token: number, _p: undefined, _c: undefined, logits: number[], totalWeight: number]>
  /** Of the last token that was computed with `embeddings` on, or pooled as the model's file says. */
  getEmbedding(tokenCount: number): Float64Array
  disposeSequence(sequence: number): void
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean
  saveSequenceStateToFile(path: string, sequence: number, tokens: Uint32Array): Promise<number>
  loadSequenceStateFromFile(path: string, sequence: number, tokensMax: number): Promise<Uint32Array>
}

export interface SamplerSettings {
  temperature?: number
  minP?: number
  topK?: number
  topP?: number
  seed?: number
  repeatPenalty?: number
  repeatPenaltyMaxTokens?: number
  repeatPenaltyTokens?: Uint32Array
  grammarEvaluationState?: NativeGrammarState
  tokenBiasKeys?: Uint32Array
  tokenBiasValues?: Float32Array
}

export interface NativeSampler {
  applyConfig(settings: SamplerSettings): void
  dispose(): void
}

declare const grammarBrand: unique symbol
interface NativeGrammar {
  readonly [grammarBrand]: 'grammar'
}
export interface NativeGrammarState {
  readonly [grammarBrand]: 'state'
}

export interface NativeBindings {
  readonly AddonModel: new (
    path: string,
    options: { addonExports: NativeBindings; gpuLayers: number; useMmap: boolean },
  ) => NativeModel
  readonly AddonContext: new (
    model: NativeModel,
    options: {
      contextSize: number
      batchSize: number
      sequences: number
      flashAttention: boolean
      threads: number
      embeddings?: boolean
    },
  ) => NativeContext
  readonly AddonSampler: {
    new (model: NativeModel): NativeSampler
    acceptGrammarEvaluationStateToken(state: NativeGrammarState, token: number): void
  }
  readonly AddonGrammar: new (
    gbnf: string,
    options: { addonExports: NativeBindings; rootRuleName: string },
  ) => NativeGrammar
  readonly AddonGrammarEvaluationState: new (
    model: NativeModel,
    grammar: NativeGrammar,
  ) => NativeGrammarState
  markLoaded(): boolean
  setLogger(log: (level: number, message: string) => void): void
  setLoggerLogLevel(level: number): void
  loadBackends(folder?: string): void
  getGpuType(): string | false | undefined
  init(): Promise<void>
}

type NativeLog = (message: string) => void

/** Level of the addon's logger that lets errors through and nothing below. */
const LOG_ERRORS = 2

let cpuBindings: Promise<NativeBindings> | undefined
const logListeners = new Set<NativeLog>()

/** Loads the addon once per process. Throws `model.load_failed` when node-llama-cpp is not installed. */
export function loadBindings(gpu: GpuChoice): Promise<NativeBindings> {
  if (gpu !== false) return loadThroughLibrary(gpu)
  cpuBindings ??= loadDirectly().catch((error: unknown) => {
    cpuBindings = undefined
    throw error
  })
  return cpuBindings
}

/** Errors that llama.cpp logs while it loads say more than its return codes. Returns the way to stop listening. */
export function listenToNativeLog(listener: NativeLog): () => void {
  logListeners.add(listener)
  return () => {
    logListeners.delete(listener)
  }
}

async function loadDirectly(): Promise<NativeBindings> {
  const found = findPrebuilt()
  if (found === undefined) return loadThroughLibrary(false)
  const { folder, require } = found
  let bindings: NativeBindings
  try {
    bindings = require(join(folder, 'llama-addon.node')) as NativeBindings
  } catch (cause) {
    throw notInstalled(`its binary does not load (${String(cause)})`, cause)
  }
  bindings.markLoaded()
  bindings.setLogger((level, message) => {
    if (level <= LOG_ERRORS) for (const listener of logListeners) listener(message)
  })
  bindings.setLoggerLogLevel(LOG_ERRORS)
  bindings.loadBackends()
  if (bindings.getGpuType() === undefined) bindings.loadBackends(folder)
  await bindings.init()
  return bindings
}

interface Prebuilt {
  readonly folder: string
  readonly require: NodeJS.Require
}

/** The folder of the prebuilt binary for this platform, or undefined when the library must decide. */
function findPrebuilt(): Prebuilt | undefined {
  const require = createRequire(import.meta.url)
  const library = resolveOrNothing(require, 'node-llama-cpp')
  if (library === undefined) throw notInstalled('it is not installed')
  const ofLibrary = createRequire(library)
  const platformPackage = `@node-llama-cpp/${process.platform}-${process.arch}`
  const entry = resolveOrNothing(ofLibrary, platformPackage)
  if (entry === undefined) return undefined
  const root = dirname(dirname(entry))
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string
  }
  if (version !== ADDON_VERSION)
    throw notInstalled(`version ${version} is installed, this build needs ${ADDON_VERSION}`)
  const [variant] = readdirSync(join(root, 'bins'))
  return variant === undefined
    ? undefined
    : { folder: join(root, 'bins', variant), require: ofLibrary }
}

function resolveOrNothing(require: NodeJS.Require, name: string): string | undefined {
  try {
    return require.resolve(name)
  } catch {
    return undefined
  }
}

interface LibraryModule {
  getLlama(options: Record<string, unknown>): Promise<{ _bindings: NativeBindings }>
}

async function loadThroughLibrary(gpu: GpuChoice): Promise<NativeBindings> {
  // A name in a variable: the package is optional and must not be needed to compile.
  const name = 'node-llama-cpp'
  let library: LibraryModule
  try {
    library = (await import(name)) as LibraryModule
  } catch (cause) {
    throw notInstalled('it is not installed', cause)
  }
  try {
    // What it says of itself is said again below, in one line.
    const quiet = { logLevel: 'disabled', progressLogs: false }
    const llama = await library.getLlama({ gpu, build: 'never', skipDownload: true, ...quiet })
    return llama._bindings
  } catch (cause) {
    throw new BatonError(
      'model.load_failed',
      `no llama.cpp for ${String(gpu)} runs here: install that variant of node-llama-cpp (docs/dependencies.md) and its drivers, or use --gpu off`,
      { cause },
    )
  }
}

function notInstalled(why: string, cause?: unknown): BatonError {
  return new BatonError(
    'model.load_failed',
    `the llama.cpp engine needs node-llama-cpp: ${why}. Run \`npm i node-llama-cpp@${ADDON_VERSION}\`, or use --engine sim`,
    cause === undefined ? {} : { cause },
  )
}
