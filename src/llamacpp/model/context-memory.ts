/**
 * The memory of a context, computed before llama.cpp allocates it.
 *
 * llama.cpp touches the whole KV cache when it opens a context. If there is not enough memory the system ends the
 * process, or another one, so a context that cannot fit is refused beforehand.
 */
import { totalmem } from 'node:os'
import type { GgufHeader } from '../../text/index.ts'
import type { HeadShape } from '../native/cpu-library.ts'
import type { KvType } from './llamacpp-options.ts'

/** ggml stores quantised types in groups of 32 elements with a scale. */
const ELEMENT_BYTES: Readonly<Record<KvType, number>> = {
  f32: 4,
  f16: 2,
  bf16: 2,
  q8_0: 34 / 32,
  q4_0: 18 / 32,
}

/**
 * Elements of K and V of all layers per token; undefined: the header does not determine them, as in models of which
 * only some layers have attention.
 */
export function kvElementsOf(
  architecture: string,
  values: GgufHeader['values'],
  { keyLength, valueLength }: HeadShape,
): number | undefined {
  const prefix = `${architecture}.`
  const layers = values.get(`${prefix}block_count`)
  const heads =
    values.get(`${prefix}attention.head_count_kv`) ?? values.get(`${prefix}attention.head_count`)
  const isMixed = [...values.keys()].some(
    (key) => key.startsWith(`${prefix}ssm.`) || key === `${prefix}full_attention_interval`,
  )
  if (isMixed || typeof layers !== 'number' || typeof heads !== 'number') return undefined
  if (keyLength === undefined || valueLength === undefined) return undefined
  return layers * heads * (keyLength + valueLength)
}

interface ContextShape {
  readonly sequences: number
  readonly contextLength: number
  readonly kvType: KvType
}

/** Why the context cannot fit into `memoryBytes`, or null. */
export function contextFault(
  { sequences, contextLength, kvType }: ContextShape,
  elements: number | undefined,
  memoryBytes: number,
): string | null {
  if (elements === undefined) return null
  const bytes = sequences * contextLength * elements * ELEMENT_BYTES[kvType]
  if (bytes <= memoryBytes) return null
  return `the KV of ${sequences} sequences of ${contextLength} tokens needs ${gigabytes(bytes)} GB of memory, and ${gigabytes(memoryBytes)} GB are available: use fewer sequences or a smaller context`
}

/** Linux counts memory that it can reclaim as available; other systems do not, so all of theirs counts here. */
export function memoryForContexts(): number {
  return process.platform === 'linux' ? process.availableMemory() : totalmem()
}

function gigabytes(bytes: number): string {
  return (bytes / 1e9).toFixed(1)
}
