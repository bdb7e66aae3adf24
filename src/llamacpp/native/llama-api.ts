/**
 * llama.cpp's C API, called from JavaScript without a compiled addon of our own.
 *
 * Owns: the declarations, and the check that the library has the version they were written for. Every call is
 * synchronous and must be made on the thread that loaded the library. A pointer is an address; nothing here
 * validates one.
 */
import { BatonError, messageOf } from '../../base/index.ts'
import { ffi } from './ffi.ts'
import type { Library } from './ffi.ts'
import { loadCpuLibrary } from './cpu-library.ts'
import type { HeadShape } from './cpu-library.ts'
import type { LibraryFiles } from './library-files.ts'
import { declareStructs, LLAMA_VERSION } from './llama-structs.ts'
import type { Batch, ContextParams, ModelParams, Pointer, ThreadPoolApi } from './llama-structs.ts'

type Bytes = Uint8Array | Pointer

export interface LlamaApi {
  readonly version: () => string
  readonly modelDefaults: () => ModelParams
  readonly contextDefaults: () => ContextParams
  readonly loadModel: (path: string, params: ModelParams) => Pointer
  readonly freeModel: (model: Pointer) => void
  readonly createContext: (model: Pointer, params: ContextParams) => Pointer
  readonly freeContext: (context: Pointer) => void
  readonly vocabOf: (model: Pointer) => Pointer
  readonly trainContext: (model: Pointer) => number
  readonly embeddingLength: (model: Pointer) => number
  readonly vocabSize: (vocab: Pointer) => number
  readonly isEndToken: (vocab: Pointer, token: number) => boolean
  readonly beginToken: (vocab: Pointer) => number
  readonly memoryOf: (context: Pointer) => Pointer
  readonly poolingOf: (context: Pointer) => number
  /** Removes the cells [from, to) of a sequence; to −1: until the end. */
  readonly removeCells: (memory: Pointer, sequence: number, from: number, to: number) => boolean
  /** The greatest position in a sequence; −1: none. */
  readonly sequenceEnd: (memory: Pointer, sequence: number) => number
  readonly createBatch: (tokens: number, embeddings: number, sequences: number) => Batch
  readonly freeBatch: (batch: Batch) => void
  readonly decode: (context: Pointer, batch: Batch) => number
  readonly logits: (context: Pointer) => Pointer
  readonly embeddingAt: (context: Pointer, index: number) => Pointer
  readonly embeddingOfSequence: (context: Pointer, sequence: number) => Pointer
  readonly stateSize: (context: Pointer, sequence: number) => number | bigint
  readonly getState: (
    context: Pointer,
    into: Bytes,
    size: number,
    sequence: number,
  ) => number | bigint
  readonly setState: (
    context: Pointer,
    from: Bytes,
    size: number,
    sequence: number,
  ) => number | bigint
  readonly attachThreads: (context: Pointer, pool: Pointer, batchPool: Pointer) => void
  readonly createChain: (params: { no_perf: boolean }) => Pointer
  readonly addToChain: (chain: Pointer, sampler: Pointer) => void
  readonly freeSampler: (sampler: Pointer) => void
  readonly applySampler: (sampler: Pointer, candidates: Uint8Array) => void
  readonly acceptToken: (sampler: Pointer, token: number) => void
  readonly drawSampler: (seed: number) => Pointer
  readonly topKSampler: (k: number) => Pointer
  readonly topPSampler: (p: number, least: number) => Pointer
  readonly minPSampler: (p: number, least: number) => Pointer
  readonly temperatureSampler: (temperature: number) => Pointer
  readonly repetitionSampler: (
    vocabSize: number,
    last: number,
    repetition: number,
    frequency: number,
    presence: number,
  ) => Pointer
  readonly grammarSampler: (vocab: Pointer, gbnf: string, root: string) => Pointer
  /** Null when the library has no such functions. */
  readonly threadPool: ThreadPoolApi | null
  /** Name of the CPU library, for example `sapphirerapids`; empty when there is only one. */
  readonly cpuName: string
}

type Declarations = Readonly<Record<Exclude<keyof LlamaApi, 'threadPool' | 'cpuName'>, string>>

const DECLARATIONS: Declarations = {
  version: 'const char* llama_version()',
  modelDefaults: 'llama_model_params llama_model_default_params()',
  contextDefaults: 'llama_context_params llama_context_default_params()',
  loadModel: 'void* llama_model_load_from_file(const char*, llama_model_params)',
  freeModel: 'void llama_model_free(void*)',
  createContext: 'void* llama_init_from_model(void*, llama_context_params)',
  freeContext: 'void llama_free(void*)',
  vocabOf: 'void* llama_model_get_vocab(void*)',
  trainContext: 'int32 llama_model_n_ctx_train(void*)',
  embeddingLength: 'int32 llama_model_n_embd(void*)',
  vocabSize: 'int32 llama_vocab_n_tokens(void*)',
  isEndToken: 'bool llama_vocab_is_eog(void*, int32)',
  beginToken: 'int32 llama_vocab_bos(void*)',
  memoryOf: 'void* llama_get_memory(void*)',
  poolingOf: 'int llama_pooling_type(void*)',
  removeCells: 'bool llama_memory_seq_rm(void*, int32, int32, int32)',
  sequenceEnd: 'int32 llama_memory_seq_pos_max(void*, int32)',
  createBatch: 'llama_batch llama_batch_init(int32, int32, int32)',
  freeBatch: 'void llama_batch_free(llama_batch)',
  decode: 'int32 llama_decode(void*, llama_batch)',
  logits: 'void* llama_get_logits(void*)',
  embeddingAt: 'void* llama_get_embeddings_ith(void*, int32)',
  embeddingOfSequence: 'void* llama_get_embeddings_seq(void*, int32)',
  stateSize: 'size_t llama_state_seq_get_size(void*, int32)',
  getState: 'size_t llama_state_seq_get_data(void*, void*, size_t, int32)',
  setState: 'size_t llama_state_seq_set_data(void*, const void*, size_t, int32)',
  attachThreads: 'void llama_attach_threadpool(void*, void*, void*)',
  createChain: 'void* llama_sampler_chain_init(llama_sampler_chain_params)',
  addToChain: 'void llama_sampler_chain_add(void*, void*)',
  freeSampler: 'void llama_sampler_free(void*)',
  applySampler: 'void llama_sampler_apply(void*, void*)',
  acceptToken: 'void llama_sampler_accept(void*, int32)',
  drawSampler: 'void* llama_sampler_init_dist(uint32)',
  topKSampler: 'void* llama_sampler_init_top_k(int32)',
  topPSampler: 'void* llama_sampler_init_top_p(float, size_t)',
  minPSampler: 'void* llama_sampler_init_min_p(float, size_t)',
  temperatureSampler: 'void* llama_sampler_init_temp(float)',
  repetitionSampler: 'void* llama_sampler_init_penalties(int32, int32, float, float, float)',
  grammarSampler: 'void* llama_sampler_init_grammar(void*, const char*, const char*)',
}

let loaded: LlamaApi | undefined
/**
 * A library that nothing refers to is unloaded by the next garbage collection. Loaded a second time at the same address,
 * libggml-base ends the process: it finds its own handler of uncaught exceptions.
 */
const held: Library[] = []

/**
 * Loads the libraries once per thread; threads of a process must not do it at the same time. Throws
 * `model.load_failed` when they cannot be loaded or have another version than the one described here.
 */
export function loadLlamaApi(files: LibraryFiles, heads: HeadShape): LlamaApi {
  if (loaded !== undefined) return loaded
  let llama: Library
  let ggml: Library
  try {
    held.push(ffi.load(files.base, { global: true }))
    ggml = ffi.load(files.ggml, { global: true })
    llama = ffi.load(files.llama, { global: true })
    held.push(ggml, llama)
  } catch (cause) {
    const why = messageOf(cause)
    throw new BatonError('model.load_failed', `llama.cpp cannot be loaded: ${why}`, { cause })
  }
  declareStructs()
  const functions = Object.fromEntries(
    Object.entries(DECLARATIONS).map(([name, declaration]) => [name, llama.func(declaration)]),
  ) as unknown as Omit<LlamaApi, 'threadPool' | 'cpuName'>
  checkLayouts(functions)
  silence(llama)
  const cpu = loadCpuLibrary(ggml, files, heads)
  loaded = { ...functions, threadPool: cpu.threadPool, cpuName: cpu.name }
  return loaded
}

/**
 * llama.cpp logs from any thread, so a JavaScript callback cannot be used; any C function with a compatible
 * signature that does nothing serves.
 */
function silence(llama: Library): void {
  const set = llama.func('void llama_log_set(void*, void*)') as (sink: Pointer, user: null) => void
  set(llama.symbol('llama_max_devices') as Pointer, null)
}

/** Values that the library fills in must be at the offsets of the layouts. */
function checkLayouts(api: Pick<LlamaApi, 'version' | 'modelDefaults' | 'contextDefaults'>): void {
  const version = api.version()
  if (version !== LLAMA_VERSION)
    throw mismatch(`version ${version} is installed, ${LLAMA_VERSION} is expected`)
  compare('llama_model_params', { ...api.modelDefaults() }, MODEL_DEFAULTS)
  compare('llama_context_params', { ...api.contextDefaults() }, CONTEXT_DEFAULTS)
}

const MODEL_DEFAULTS: Partial<ModelParams> = {
  n_gpu_layers: -1,
  split_mode: 1,
  load_mode: -1,
  lazy_mode: 1,
  vocab_only: false,
  use_extra_bufts: true,
  load_mtp: false,
}

const CONTEXT_DEFAULTS: Partial<ContextParams> = {
  n_ctx: 512,
  n_batch: 2048,
  n_ubatch: 512,
  n_seq_max: 1,
  n_outputs_max_per_seq: 1,
  rope_scaling_type: -1,
  pooling_type: -1,
  attention_type: -1,
  flash_attn_type: -1,
  yarn_ext_factor: -1,
  type_k: 1,
  type_v: 1,
  embeddings: false,
  offload_kqv: true,
  no_perf: true,
  op_offload: true,
  kv_unified: false,
  ctx_other: null,
}

function compare(struct: string, found: object, expected: object): void {
  for (const [name, value] of Object.entries(expected)) {
    const actual = (found as Record<string, unknown>)[name]
    if (actual !== value)
      throw mismatch(`${struct}.${name} is ${String(actual)} where ${String(value)} is expected`)
  }
}

function mismatch(what: string): BatonError {
  return new BatonError(
    'model.load_failed',
    `the installed llama.cpp does not match this build: ${what}`,
  )
}
