import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BatonError, seededRandom, workerIdOf } from '../../base/index.ts'
import { LlamaCppEngine } from '../llamacpp-engine.ts'
import { inspectModelFile } from './model-file.ts'

const MODEL = 'models/storyteller/storyteller-q8_0.gguf'
const HEADER_BYTES = 60_000
let folder: string
let good: Buffer

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'baton-model-'))
  good = readFileSync(MODEL)
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

function write(bytes: Uint8Array | string): string {
  const path = join(folder, 'model.gguf')
  writeFileSync(path, bytes)
  return path
}

function complaint(path: string): string {
  try {
    inspectModelFile(path)
    return 'accepted'
  } catch (error) {
    if (error instanceof BatonError) return `${error.code}: ${error.message}`
    throw error
  }
}

describe('inspectModelFile', () => {
  it('the model that ships with Baton - is identified by its weights, not by its path', () => {
    const file = inspectModelFile(MODEL)
    expect(file).toMatchObject({ architecture: 'llama', vocabSize: 2048 })
    const copy = join(folder, 'copy.gguf')
    copyFileSync(MODEL, copy)
    expect(inspectModelFile(copy).identity).toBe(file.identity)
    const changed = Buffer.from(good)
    const last = changed.length - 1
    changed[last] = (changed[last] ?? 0) ^ 1
    expect(inspectModelFile(write(changed)).identity).not.toBe(file.identity)
  })

  it.each([
    ['an empty file', new Uint8Array(0), 'is not a usable GGUF file'],
    ['a text', 'not a model at all', 'is not a usable GGUF file'],
    ['the magic alone', 'GGUF', 'is not a usable GGUF file'],
    ['another version', Buffer.from('GGUF\u0009\0\0\0', 'latin1'), 'its version is 9'],
    [
      'absurd counts',
      Buffer.from(`GGUF\u0003\0\0\0${'\u00ff'.repeat(16)}`, 'latin1'),
      'a length of',
    ],
    [
      'no tensors',
      Buffer.from(`GGUF\u0003\0\0\0${'\0'.repeat(16)}`, 'latin1'),
      'contains no model',
    ],
  ])('%s - one clear line', (_what, bytes, message) => {
    expect(complaint(write(bytes))).toContain(message)
  })

  it('a missing file and a folder - one clear line', () => {
    expect(complaint(join(folder, 'none.gguf'))).toContain('cannot be opened')
    expect(complaint(folder)).toContain('is not a file')
  })

  it.skipIf(process.platform === 'win32')('a pipe without a writer - one clear line', () => {
    const pipe = join(folder, 'pipe.gguf')
    execFileSync('mkfifo', [pipe])
    expect(complaint(pipe)).toContain('is not a file')
  })

  it('a truncated file - is refused before llama.cpp reads it', () => {
    const random = seededRandom(3)
    const path = write(good)
    for (let size = good.length - 1; size > 0; size -= 1 + Math.floor(random.next() * 100_000)) {
      truncateSync(path, size)
      expect(complaint(path), `${size} bytes`).toContain('model.load_failed')
    }
  })

  it('damaged headers - are refused or read, and cause no other error', () => {
    const random = seededRandom(4)
    for (let round = 0; round < 60; round++) {
      const bytes = Buffer.from(good)
      for (let i = 0; i < 4; i++) {
        bytes[Math.floor(random.next() * HEADER_BYTES)] = Math.floor(random.next() * 256)
      }
      complaint(write(bytes))
    }
  })
})

/** The shipped model with another number for this key. */
function withNumber(key: string, write: (bytes: Buffer, at: number) => void): Buffer {
  const bytes = Buffer.from(good)
  // The key is followed by its type.
  write(bytes, bytes.indexOf(key) + key.length + 4)
  return bytes
}

const BAD_NUMBERS: readonly [string, number][] = [
  ['llama.block_count', 0],
  ['llama.block_count', 513],
  ['llama.context_length', 0],
  ['llama.context_length', 1],
  ['llama.context_length', 2 ** 31],
]
const BAD_FRACTIONS: readonly [string, number][] = [
  ['llama.attention.layer_norm_rms_epsilon', -1],
  ['llama.attention.layer_norm_rms_epsilon', Number.NaN],
]

describe('numbers that would crash the process or make it useless', () => {
  it.each(BAD_NUMBERS)('%s of %d - is named', (key, value) => {
    const path = write(withNumber(key, (bytes, at) => bytes.writeUInt32LE(value, at)))
    expect(complaint(path)).toContain(`has ${key} = ${value}`)
  })

  it.each(BAD_FRACTIONS)('%s of %d - is named', (key, value) => {
    const path = write(withNumber(key, (bytes, at) => bytes.writeFloatLE(value, at)))
    expect(complaint(path)).toContain(`has ${key} = ${value}`)
  })
})

describe('LlamaCppEngine.start', () => {
  it.each([
    ['a file that is no model', () => write('garbage'.repeat(1000))],
    ['a model that is cut off', () => write(good.subarray(0, 1_000_000))],
    ['a file that is not there', () => join(folder, 'none.gguf')],
    [
      'an architecture that llama.cpp does not know',
      () => write(Buffer.from(good.toString('latin1').replace('llama', 'lxama'), 'latin1')),
    ],
    [
      'a rotation that computes no numbers',
      () => write(withNumber('llama.rope.freq_base', (bytes, at) => bytes.writeFloatLE(0, at))),
    ],
  ])('with %s - fails with model.load_failed, and cleanup works', async (_what, make) => {
    const engine = new LlamaCppEngine({ modelPath: make() })
    const error: unknown = await engine.start(workerIdOf(1)).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(BatonError)
    expect(error).toMatchObject({ code: 'model.load_failed' })
    expect(String(error)).toContain('the model file')
    await engine.cleanup()
  })

  it('with a context that needs more memory than there is - fails before it allocates any', async () => {
    const engine = new LlamaCppEngine({
      modelPath: MODEL,
      contextSize: 9_000_000,
      sequences: 256,
    })
    const error: unknown = await engine.start(workerIdOf(1)).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'model.load_failed' })
    expect(String(error)).toMatch(/256 sequences of 9000000 tokens needs \d+\.\d GB of memory/)
    await engine.cleanup()
  })
})
