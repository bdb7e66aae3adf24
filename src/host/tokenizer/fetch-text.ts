/**
 * Fetches the text side of a model from a worker that has it, and caches it by hash in a folder of this machine.
 *
 * A folder in the cache is complete or absent: files are written beside it, verified with the hashes in the worker's
 * card, and moved into place at the end. Several processes may fetch the same model at once.
 */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { BatonError, isRecord } from '../../base/index.ts'
import type { ModelTextFile, ModelTextManifest } from '../../request/index.ts'
import { manifestHash, TEXT_BYTES_MAX, TEXT_FILES_MAX, TEXT_PIECE_BYTES } from './text-files.ts'

export interface TextSource {
  /** Asks for `{ name, offset }` of a file in the manifest; the answer is unchecked. */
  ask(question: { readonly name: string; readonly offset: number }): Promise<unknown>
  close(): void
}

interface FetchTextOptions {
  readonly manifest: ModelTextManifest
  /** The cache folder. */
  readonly cache: string
  /** Workers that have the model, asked one after the other until one has sent it completely. */
  readonly sources: readonly (() => Promise<TextSource>)[]
  readonly totalMs: number
}

/** The cache folder cannot be read or written. */
export class TextCacheFault extends BatonError {
  constructor(cache: string, cause: unknown) {
    const { code = String(cause) } = cause as NodeJS.ErrnoException
    const text = `${cache} cannot store the tokenizer and template of a model (${code}): name a writable folder with --model-cache`
    super('model.load_failed', text, { cause })
  }
}

const NAME = /^[\w.-]{1,64}$/
const HASH = /^[0-9a-f]{64}$/
const GGUF_NAME = 'model.gguf'

/**
 * The path of the model's text side. Rejects with `model.load_failed`, or with `TextCacheFault` when the cache
 * cannot be used, which asking another worker would not solve.
 */
export async function fetchText(options: FetchTextOptions): Promise<string> {
  const { manifest, cache } = options
  checkManifest(manifest)
  const folder = path.join(cache, manifest.hash)
  const isKept = await holds(folder, manifest).catch((thrown: unknown) => {
    throw new TextCacheFault(cache, thrown)
  })
  if (isKept) return placeIn(folder, manifest)
  const endMs = performance.now() + options.totalMs
  let last = new BatonError('model.load_failed', 'no worker that has the model is known')
  for (const open of options.sources) {
    try {
      await fetchFrom(open, { manifest, cache, folder, endMs })
      return placeIn(folder, manifest)
    } catch (thrown) {
      last = BatonError.from(thrown, 'model.load_failed')
      if (last instanceof TextCacheFault) throw last
    }
  }
  const text = `the model's tokenizer and template cannot be fetched from its workers: ${last.message}`
  throw new BatonError('model.load_failed', text, { cause: last })
}

/** A worker's answer is not trusted: names must stay inside the folder, lengths are limited. */
function checkManifest({ hash, files }: ModelTextManifest): void {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const names = new Set(files.map(({ name }) => name))
  const isFine =
    files.length > 0 &&
    files.length <= TEXT_FILES_MAX &&
    names.size === files.length &&
    bytes <= TEXT_BYTES_MAX &&
    files.every(isPlausible) &&
    hash === manifestHash(files)
  if (isFine) return
  throw new BatonError('model.load_failed', "the list of files in a worker's card is invalid")
}

function isPlausible({ name, bytes, sha256 }: ModelTextFile): boolean {
  const isName = NAME.test(name) && name !== '.' && name !== '..'
  return isName && Number.isInteger(bytes) && bytes > 0 && HASH.test(sha256)
}

function placeIn(folder: string, { files }: ModelTextManifest): string {
  return files.some(({ name }) => name === GGUF_NAME) ? path.join(folder, GGUF_NAME) : folder
}

interface Fetching {
  readonly manifest: ModelTextManifest
  readonly cache: string
  readonly folder: string
  readonly endMs: number
}

async function fetchFrom(open: () => Promise<TextSource>, fetching: Fetching): Promise<void> {
  const { manifest, cache, folder, endMs } = fetching
  const source = await open()
  const aside = path.join(cache, `.${manifest.hash}.${randomBytes(6).toString('hex')}`)
  const keep = async (work: Promise<unknown>): Promise<void> => {
    await work.catch((thrown: unknown) => {
      throw new TextCacheFault(cache, thrown)
    })
  }
  try {
    await keep(makeFolders(aside))
    for (const file of manifest.files) {
      const bytes = await fetchFile(source, file, endMs)
      await keep(writeFile(path.join(aside, file.name), bytes))
    }
    await keep(moveInto(folder, aside, manifest))
  } finally {
    source.close()
    await rm(aside, { recursive: true, force: true }).catch(() => undefined)
  }
}

/** Not `recursive`, which never returns where nothing can be created (/proc). */
async function makeFolders(folder: string): Promise<void> {
  try {
    await mkdir(folder)
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const parent = path.dirname(folder)
    if (code !== 'ENOENT' || parent === folder) throw thrown
    await makeFolders(parent)
    await mkdir(folder).catch((again: NodeJS.ErrnoException) => {
      if (again.code !== 'EEXIST') throw again
    })
  }
}

/** Another process may have been faster; a damaged folder is replaced. */
async function moveInto(folder: string, aside: string, manifest: ModelTextManifest): Promise<void> {
  try {
    await rename(aside, folder)
  } catch (thrown) {
    if (await holds(folder, manifest)) return
    await rm(folder, { recursive: true, force: true })
    await rename(aside, folder).catch(() => {
      throw thrown
    })
  }
}

async function fetchFile(
  source: TextSource,
  { name, bytes, sha256 }: ModelTextFile,
  endMs: number,
): Promise<Uint8Array> {
  const whole = new Uint8Array(bytes)
  for (let offset = 0; offset < bytes;) {
    if (performance.now() > endMs) throw fault(`${name} was not complete in time`)
    const answer = await source.ask({ name, offset })
    const piece = isRecord(answer) ? answer['bytes'] : undefined
    const isPiece = piece instanceof Uint8Array && piece.length > 0
    if (!isPiece || piece.length > Math.min(TEXT_PIECE_BYTES, bytes - offset)) {
      throw fault(`a piece of ${name} has the wrong length`)
    }
    whole.set(piece, offset)
    offset += piece.length
  }
  if (sha256Of(whole) === sha256) return whole
  throw fault(`${name} differs from the hash in the worker's card`)
}

async function holds(folder: string, { files }: ModelTextManifest): Promise<boolean> {
  for (const { name, bytes, sha256 } of files) {
    const place = path.join(folder, name)
    const entry = await stat(place).catch(() => null)
    if (entry?.size !== bytes || sha256Of(await readFile(place)) !== sha256) return false
  }
  return true
}

function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function fault(message: string): BatonError {
  return new BatonError('model.load_failed', message)
}
