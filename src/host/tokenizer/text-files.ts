/**
 * The files of a model's text side (tokenizer, template, configuration), as a worker offers them to frontends that
 * do not have the model: a list with lengths and hashes, and their bytes in pieces.
 *
 * Of a GGUF file only the metadata at its beginning is offered. A file is read again for each piece. The receiver
 * verifies the hash at the end and so detects a file that changed in between.
 */
import { createHash } from 'node:crypto'
import { open, readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { BatonError, isRecord } from '../../base/index.ts'
import { readGgufMetadataBytes } from '../../text/index.ts'
import type { ModelTextFile, ModelTextManifest } from '../../request/index.ts'

/** The relevant files of a Hugging Face folder. */
const FOLDER_FILES = [
  'tokenizer.json',
  'tokenizer_config.json',
  'config.json',
  'generation_config.json',
  'chat_template.jinja',
] as const

/** A tokenizer of 300,000 tokens has about 40 MB, including its configuration. */
export const TEXT_BYTES_MAX = 256 * 1024 ** 2
export const TEXT_FILES_MAX = 8
export const TEXT_PIECE_BYTES = 1024 ** 2
const GGUF_NAME = 'model.gguf'
const FIRST_READ_BYTES = 2 * 1024 ** 2

interface OfferedFile extends ModelTextFile {
  readonly place: string
}

export class TextFiles {
  readonly manifest: ModelTextManifest
  readonly #files: ReadonlyMap<string, OfferedFile>

  private constructor(files: readonly OfferedFile[]) {
    this.#files = new Map(files.map((file) => [file.name, file]))
    const listed = files.map(({ name, bytes, sha256 }) => ({ name, bytes, sha256 }))
    this.manifest = { hash: manifestHash(listed), files: listed }
  }

  /** Null: nothing can be read here, or the files are too long to be sent. */
  static async at(modelPath: string): Promise<TextFiles | null> {
    const places = await placesOf(modelPath)
    const files: OfferedFile[] = []
    let total = 0
    for (const { name, place, bytes } of places) {
      total += bytes
      if (total > TEXT_BYTES_MAX) return null
      files.push({ name, place, bytes, sha256: await hashOf(place, bytes) })
    }
    return files.length === 0 ? null : new TextFiles(files)
  }

  /** `question`: `{ name, offset }`. Answers `{ bytes }`, at most `TEXT_PIECE_BYTES` of them. */
  async piece(question: unknown): Promise<unknown> {
    const { name, offset } = isRecord(question) ? question : {}
    const file = this.#files.get(String(name))
    if (file === undefined || typeof offset !== 'number' || !Number.isInteger(offset)) {
      throw new BatonError('request.not_found', `the model has no file ${String(name)}`)
    }
    if (offset < 0 || offset >= file.bytes) {
      throw new BatonError('request.invalid_argument', `${file.name} has ${file.bytes} bytes`)
    }
    const length = Math.min(TEXT_PIECE_BYTES, file.bytes - offset)
    return { bytes: await readPart(file.place, offset, length) }
  }
}

/** Over names, lengths and hashes: the same content has the same hash, wherever it is stored. */
export function manifestHash(files: readonly ModelTextFile[]): string {
  const hash = createHash('sha256')
  for (const { name, bytes, sha256 } of files) hash.update(`${name} ${bytes} ${sha256}\n`)
  return hash.digest('hex')
}

interface Place {
  readonly name: string
  readonly place: string
  readonly bytes: number
}

/** The files that `loadModelText` would read. */
async function placesOf(modelPath: string): Promise<readonly Place[]> {
  const entry = await stat(modelPath)
  if (entry.isFile()) {
    const gguf = { name: GGUF_NAME, place: modelPath, bytes: await metadataBytes(modelPath) }
    return [gguf, ...(await folderPlaces(path.dirname(modelPath)))]
  }
  const inFolder = await folderPlaces(modelPath)
  if (inFolder.some(({ name }) => name === 'tokenizer.json')) return inFolder
  const [gguf] = (await readdir(modelPath)).filter((name) => name.toLowerCase().endsWith('.gguf'))
  if (gguf === undefined) return []
  const place = path.join(modelPath, gguf)
  return [{ name: GGUF_NAME, place, bytes: await metadataBytes(place) }]
}

/** Beside a GGUF file the other files count only if there is a tokenizer. */
async function folderPlaces(folder: string): Promise<readonly Place[]> {
  const places: Place[] = []
  for (const name of FOLDER_FILES) {
    const place = path.join(folder, name)
    const entry = await stat(place).catch(() => null)
    if (entry?.isFile() === true && entry.size > 0) places.push({ name, place, bytes: entry.size })
  }
  return places.some(({ name }) => name === 'tokenizer.json') ? places : []
}

async function metadataBytes(place: string): Promise<number> {
  const { size } = await stat(place)
  let wanted = Math.min(size, FIRST_READ_BYTES)
  for (;;) {
    const read = readGgufMetadataBytes(await readPart(place, 0, wanted), size)
    if (read.kind === 'length') return read.metadataBytes
    wanted = Math.min(size, Math.max(read.bytesNeeded, wanted * 4))
  }
}

async function readPart(place: string, offset: number, length: number): Promise<Uint8Array> {
  const file = await open(place)
  try {
    const bytes = new Uint8Array(length)
    let done = 0
    while (done < length) {
      const { bytesRead } = await file.read(bytes, done, length - done, offset + done)
      if (bytesRead === 0) throw new BatonError('model.load_failed', `${place} was truncated`)
      done += bytesRead
    }
    return bytes
  } finally {
    await file.close()
  }
}

async function hashOf(place: string, length: number): Promise<string> {
  const hash = createHash('sha256')
  for (let at = 0; at < length; at += TEXT_PIECE_BYTES) {
    hash.update(await readPart(place, at, Math.min(TEXT_PIECE_BYTES, length - at)))
  }
  return hash.digest('hex')
}
