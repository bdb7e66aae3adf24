/**
 * The structures of llama.cpp's C API as in its header of release v0.4.0.
 *
 * A wrong offset would write into foreign memory, so `llama-api.ts` verifies the values that the library itself
 * fills in.
 */
import { ffi } from './ffi.ts'

/** The result of `llama_version()` for libraries with these layouts. */
export const LLAMA_VERSION = '0.4.0-dev'

export interface ModelParams {
  n_gpu_layers: number
  split_mode: number
  load_mode: number
  lazy_mode: number
  vocab_only: boolean
  use_extra_bufts: boolean
  load_mtp: boolean
}

export interface ContextParams {
  n_ctx: number
  n_batch: number
  n_ubatch: number
  n_seq_max: number
  n_outputs_max_per_seq: number
  n_threads: number
  n_threads_batch: number
  rope_scaling_type: number
  pooling_type: number
  attention_type: number
  flash_attn_type: number
  yarn_ext_factor: number
  type_k: number
  type_v: number
  embeddings: boolean
  offload_kqv: boolean
  no_perf: boolean
  op_offload: boolean
  kv_unified: boolean
  n_samplers: number | bigint
  ctx_other: Pointer
}

/** An address; null: none. */
export type Pointer = bigint | null

export interface ThreadPoolApi {
  readonly create: (params: Uint8Array) => Pointer
  readonly free: (pool: Pointer) => void
}

export interface Batch {
  n_tokens: number
  token: Pointer
  embd: Pointer
  pos: Pointer
  n_seq_id: Pointer
  seq_id: Pointer
  logits: Pointer
}

/** Declares the structures for this thread. */
export function declareStructs(): void {
  ffi.struct('llama_model_params', {
    devices: 'void*',
    tensor_buft_overrides: 'void*',
    n_gpu_layers: 'int32',
    split_mode: 'int32',
    load_mode: 'int32',
    lazy_mode: 'int32',
    main_gpu: 'int32',
    tensor_split: 'void*',
    progress_callback: 'void*',
    progress_callback_user_data: 'void*',
    kv_overrides: 'void*',
    vocab_only: 'bool',
    check_tensors: 'bool',
    use_extra_bufts: 'bool',
    no_host: 'bool',
    no_alloc: 'bool',
    load_mtp: 'bool',
  })
  declareContextParams()
  ffi.struct('llama_batch', {
    n_tokens: 'int32',
    token: 'void*',
    embd: 'void*',
    pos: 'void*',
    n_seq_id: 'void*',
    seq_id: 'void*',
    logits: 'void*',
  })
  ffi.struct('llama_sampler_chain_params', { no_perf: 'bool' })
}

function declareContextParams(): void {
  ffi.struct('llama_context_params', {
    n_ctx: 'uint32',
    n_batch: 'uint32',
    n_ubatch: 'uint32',
    n_seq_max: 'uint32',
    n_rs_seq: 'uint32',
    n_outputs_max: 'uint32',
    n_outputs_max_per_seq: 'uint32',
    n_threads: 'int32',
    n_threads_batch: 'int32',
    ctx_type: 'int32',
    rope_scaling_type: 'int32',
    pooling_type: 'int32',
    attention_type: 'int32',
    flash_attn_type: 'int32',
    rope_freq_base: 'float',
    rope_freq_scale: 'float',
    yarn_ext_factor: 'float',
    yarn_attn_factor: 'float',
    yarn_beta_fast: 'float',
    yarn_beta_slow: 'float',
    yarn_orig_ctx: 'uint32',
    defrag_thold: 'float',
    cb_eval: 'void*',
    cb_eval_user_data: 'void*',
    type_k: 'int32',
    type_v: 'int32',
    abort_callback: 'void*',
    abort_callback_data: 'void*',
    embeddings: 'bool',
    offload_kqv: 'bool',
    no_perf: 'bool',
    op_offload: 'bool',
    swa_full: 'bool',
    kv_unified: 'bool',
    samplers: 'void*',
    n_samplers: 'size_t',
    ctx_other: 'void*',
  })
}
