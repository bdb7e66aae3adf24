/**
 * Identifies a model's weights without reading them completely: by the lengths of its files and evenly spaced
 * samples of them. Two trainings of a model differ in nearly every number, and therefore in a sample.
 */
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { open, readdir, stat } from 'node:fs/promises'
import path from 'node:path'

const SAMPLES = 64
const SAMPLE_BYTES = 4096
const DIGEST_CHARACTERS = 32
const OF_NUMBERS = /\.(gguf|safetensors|bin|pt|pth)$/i

/** Null: there are no weights that can be read here. */
export async function weightsFingerprint(modelPath: string): Promise<string | null> {
  try {
    const places = await placesOf(modelPath)
    if (places.length === 0) return null
    const hash = createHash('sha256')
    for (const place of places) await addSamples(hash, place)
    return hash.digest('hex').slice(0, DIGEST_CHARACTERS)
  } catch {
    return null
  }
}

async function placesOf(modelPath: string): Promise<readonly string[]> {
  if ((await stat(modelPath)).isFile()) return [modelPath]
  const names = (await readdir(modelPath)).filter((name) => OF_NUMBERS.test(name))
  return names.toSorted().map((name) => path.join(modelPath, name))
}

async function addSamples(hash: Hash, place: string): Promise<void> {
  const file = await open(place)
  try {
    const { size } = await file.stat()
    hash.update(`${size}\n`)
    const bytes = new Uint8Array(SAMPLE_BYTES)
    for (let i = 0; i < SAMPLES; i++) {
      const at = Math.floor((Math.max(0, size - SAMPLE_BYTES) * i) / (SAMPLES - 1))
      const { bytesRead } = await file.read(bytes, 0, SAMPLE_BYTES, at)
      hash.update(bytes.subarray(0, bytesRead))
    }
  } finally {
    await file.close()
  }
}
