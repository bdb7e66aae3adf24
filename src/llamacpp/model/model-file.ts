/**
 * Validates a GGUF file before llama.cpp opens it, because llama.cpp may crash the process on an invalid file.
 *
 * Owns: the checks (magic, version, counts, every tensor inside the file, numbers within limits) and the identity of
 * the model. Reads only the header, and a sample of the tensors.
 */
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { BatonError } from '../../base/index.ts'
import { readGgufHeader } from '../../text/index.ts'
import type { GgufHeader } from '../../text/index.ts'
import type { HeadShape } from '../native/cpu-library.ts'
import { kvElementsOf } from './context-memory.ts'
import { tensorBytes } from './gguf-tensor-size.ts'
import { numbersFault } from './model-numbers.ts'

export interface ModelFile {
  readonly path: string
  readonly fileBytes: number
  readonly architecture: string
  readonly name: string | undefined
  readonly vocabSize: number
  /** Dimensions of an embedding; undefined: not supported by this engine for this model. */
  readonly embeddingLength: number | undefined
  /** Undefined lengths: not stated in the file. */
  readonly heads: HeadShape
  /** Elements of K and V per token; undefined: not known. */
  readonly kvElements: number | undefined
  /** Hexadecimal; equal for equal weights, wherever the file is. */
  readonly identity: string
}

const HEADER_BYTES_FIRST = 4 * 1024 * 1024
const ALIGNMENT = 32
const SAMPLES = 64
const SAMPLE_BYTES = 64 * 1024

/** Throws `model.load_failed` that says what is wrong with the file and what to do. */
export function inspectModelFile(path: string): ModelFile {
  let file: number
  try {
    // Without O_NONBLOCK, opening a pipe waits for its writer. Windows has neither: `undefined` counts as 0.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (cause) {
    throw broken(path, `cannot be opened (${String((cause as Error).message)})`, cause)
  }
  try {
    const stats = fstatSync(file)
    if (!stats.isFile()) throw broken(path, 'is not a file; give the path of a .gguf file')
    return inspect(path, file, stats.size)
  } finally {
    closeSync(file)
  }
}

function inspect(path: string, file: number, fileBytes: number): ModelFile {
  let wanted = Math.min(HEADER_BYTES_FIRST, fileBytes)
  for (;;) {
    const bytes = readAt(file, 0, wanted)
    const read = readHeader(path, bytes, fileBytes)
    if (read.kind === 'header') return describe(path, file, fileBytes, bytes, read.header)
    if (bytes.length < wanted) throw broken(path, 'was truncated while it was read')
    // Extending by the missing bytes alone would parse the header again for each string.
    wanted = Math.min(fileBytes, Math.max(read.bytesNeeded, wanted * 4))
  }
}

function readHeader(
  path: string,
  bytes: Buffer,
  fileBytes: number,
): ReturnType<typeof readGgufHeader> {
  try {
    return readGgufHeader(bytes, fileBytes)
  } catch (error) {
    throw broken(path, `is ${BatonError.from(error).message}`, error)
  }
}

function describe(
  path: string,
  file: number,
  fileBytes: number,
  bytes: Buffer,
  { values, tensors, headerBytes }: GgufHeader,
): ModelFile {
  const stated = values.get('general.alignment')
  const alignment = typeof stated === 'number' && stated > 0 ? stated : ALIGNMENT
  const dataStart = Math.ceil(headerBytes / alignment) * alignment
  for (const tensor of tensors) {
    const size = tensorBytes(tensor.type, tensor.dimensions) ?? 0
    const end = dataStart + tensor.offset + size
    if (end > fileBytes)
      throw broken(
        path,
        `is incomplete: tensor '${tensor.name}' ends at byte ${end}, the file at ${fileBytes}`,
      )
  }
  const architecture = values.get('general.architecture')
  if (typeof architecture !== 'string' || tensors.length === 0)
    throw broken(path, 'contains no model (no architecture or no tensors)')
  const fault = numbersFault(architecture, values)
  if (fault !== null) throw broken(path, fault)
  const name = values.get('general.name')
  const tokens = values.get('tokenizer.ggml.tokens')
  const heads = headsOf(architecture, values)
  return {
    path,
    fileBytes,
    architecture,
    name: typeof name === 'string' ? name : undefined,
    vocabSize: Array.isArray(tokens) ? tokens.length : 0,
    embeddingLength: embeddingLengthOf(architecture, values),
    heads,
    kvElements: kvElementsOf(architecture, values, heads),
    identity: identityOf(file, fileBytes, bytes.subarray(0, headerBytes)),
  }
}

/** llama.cpp's numbers of the poolings that use a single token: none, and the last one. */
const POOLINGS_OF_ONE_TOKEN: readonly unknown[] = [undefined, 0, 3]

/** A prompt is computed piecewise, so a mean over all its tokens is not available. */
function embeddingLengthOf(architecture: string, values: GgufHeader['values']): number | undefined {
  const length = values.get(`${architecture}.embedding_length`)
  const pooling = values.get(`${architecture}.pooling_type`)
  if (typeof length !== 'number' || !POOLINGS_OF_ONE_TOKEN.includes(pooling)) return undefined
  return length
}

function headsOf(architecture: string, values: GgufHeader['values']): HeadShape {
  const number = (key: string): number | undefined => {
    const value = values.get(`${architecture}.${key}`)
    return typeof value === 'number' ? value : undefined
  }
  const width = number('embedding_length')
  const count = number('attention.head_count')
  const even = width === undefined || count === undefined ? undefined : width / count
  return {
    keyLength: number('attention.key_length') ?? even,
    valueLength: number('attention.value_length') ?? even,
  }
}

function identityOf(file: number, fileBytes: number, header: Buffer): string {
  const hash = createHash('sha256').update(header).update(String(fileBytes))
  const step = Math.max(SAMPLE_BYTES, Math.floor(fileBytes / SAMPLES))
  for (let at = header.length; at < fileBytes; at += step) {
    hash.update(readAt(file, at, Math.min(SAMPLE_BYTES, fileBytes - at)))
  }
  return hash.digest('hex').slice(0, 32)
}

function readAt(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  let done = 0
  while (done < length) {
    const count = readSync(file, bytes, done, length - done, position + done)
    if (count === 0) break
    done += count
  }
  return bytes.subarray(0, done)
}

function broken(path: string, what: string, cause?: unknown): BatonError {
  return new BatonError('model.load_failed', `the model file ${path} ${what}`, {
    data: { path },
    ...(cause === undefined ? {} : { cause }),
  })
}
