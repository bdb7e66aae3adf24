/**
 * A look at a GGUF file before llama.cpp gets it, which may end the process over a file that is not what it claims.
 *
 * Owns: the checks (magic, version, counts, every tensor inside the file) and the identity of the model. Reads the
 * header only, and of the tensors a sample.
 */
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { BatonError } from '../../../base/index.ts'
import { GgufReader } from './gguf-reader.ts'
import { tensorBytes } from './gguf-tensor-size.ts'

export interface ModelFile {
  readonly path: string
  readonly fileBytes: number
  readonly architecture: string
  readonly name: string | undefined
  readonly vocabSize: number
  /** Hex; the same for the same weights wherever the file lies. */
  readonly identity: string
}

const HEADER_BYTES_FIRST = 4 * 1024 * 1024
const HEADER_BYTES_MAX = 512 * 1024 * 1024
const SAMPLES = 64
const SAMPLE_BYTES = 64 * 1024

/** Throws `model.load_failed` and says what is wrong with the file and what to do. */
export function inspectModelFile(path: string): ModelFile {
  let file: number
  try {
    file = openSync(path, 'r')
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
  for (let size = HEADER_BYTES_FIRST; ; size *= 4) {
    const header = readAt(file, 0, Math.min(size, fileBytes))
    const isWhole = header.length === fileBytes || size >= HEADER_BYTES_MAX
    try {
      return describe(path, file, fileBytes, header)
    } catch (error) {
      const isShort = error instanceof RangeError
      if (isShort && !isWhole) continue
      if (isShort) throw broken(path, `is cut off (${error.message})`, error)
      throw error
    }
  }
}

function describe(path: string, file: number, fileBytes: number, header: Buffer): ModelFile {
  const reader = new GgufReader(header, (what) => broken(path, what))
  const { metadata, tensors, headerBytes, alignment } = reader.read()
  const dataStart = Math.ceil(headerBytes / alignment) * alignment
  for (const tensor of tensors) {
    const bytes = tensorBytes(tensor.type, tensor.dimensions)
    const end = dataStart + tensor.offset + (bytes ?? 0)
    if (end > fileBytes)
      throw broken(
        path,
        `is cut off: tensor '${tensor.name}' ends at byte ${end}, the file at ${fileBytes}`,
      )
  }
  const architecture = metadata.get('general.architecture')
  if (typeof architecture !== 'string' || tensors.length === 0)
    throw broken(path, 'holds no model (no architecture or no tensors)')
  const name = metadata.get('general.name')
  return {
    path,
    fileBytes,
    architecture,
    name: typeof name === 'string' ? name : undefined,
    vocabSize: reader.arrayLength('tokenizer.ggml.tokens'),
    identity: identityOf(file, fileBytes, header.subarray(0, headerBytes)),
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
