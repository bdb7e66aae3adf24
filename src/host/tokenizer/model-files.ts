/**
 * Reads what the frontend needs of a model from disk: a GGUF file, or a Hugging Face folder (which may contain a
 * GGUF file).
 *
 * A `tokenizer.json` beside a GGUF file is preferred to the file's own vocabulary if both give the same names to the
 * same ids. Only the header of a GGUF file is read, so that a large model loads as fast as a small one.
 */
import { open, readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { BatonError, freeMemory, messageOf } from '../../base/index.ts'
import { modelTextFromGguf, modelTextFromHuggingFace, readGgufMetadata } from '../../text/index.ts'
import type { GgufMetadata, ModelText } from '../../text/index.ts'
import { hubNameOf } from './hub-cache.ts'

export interface LoadedModelText extends ModelText {
  /** For display and `/v1/models`: the name in the model's metadata, otherwise the name of the file or folder. */
  readonly name: string
  readonly kind: 'gguf' | 'hugging-face'
  /** The GGUF file if there is one, for engines that read GGUF. */
  readonly ggufPath: string | null
}

/** Enough for a small vocabulary; large ones are read in the second or third attempt. */
const FIRST_READ_BYTES = 256 * 1024
const NEXT_READ_FACTOR = 8

/** Throws `model.load_failed` with a message that says what to do. */
export async function loadModelText(modelPath: string): Promise<LoadedModelText> {
  try {
    return await loadAt(modelPath)
  } catch (thrown) {
    if (thrown instanceof BatonError) throw thrown
    // The file system's own error: no permission, a broken link in the folder, a folder in the place of a file.
    throw failure(
      `the model ${modelPath} cannot be read: ${BatonError.from(thrown).message}`,
      thrown,
    )
  }
}

async function loadAt(modelPath: string): Promise<LoadedModelText> {
  const entry = await stat(modelPath).catch((thrown: unknown) => {
    throw failure(`${modelPath} does not exist: check the path of the model`, thrown)
  })
  if (entry.isFile()) return await loadGguf(modelPath)
  if (!entry.isDirectory())
    throw failure(`${modelPath} is neither a file nor a folder: check the path of the model`)
  const names = (await readdir(modelPath)).toSorted()
  const gguf = await smallestGguf(modelPath, names)
  if (names.includes('tokenizer.json')) {
    const text = await loadFolder(modelPath)
    const name = hubNameOf(modelPath) ?? path.basename(path.resolve(modelPath))
    return { ...text, name, kind: 'hugging-face', ggufPath: gguf }
  }
  if (gguf !== null) return loadGguf(gguf)
  throw failure(
    `the folder ${modelPath} contains neither tokenizer.json nor a .gguf file; give the folder of a Hugging Face model or a GGUF file`,
  )
}

/** Several GGUF files are the same model in different precision; the smallest loads first. */
async function smallestGguf(folder: string, names: readonly string[]): Promise<string | null> {
  let best: { readonly filePath: string; readonly bytes: number } | null = null
  for (const name of names) {
    if (!name.toLowerCase().endsWith('.gguf')) continue
    const filePath = path.join(folder, name)
    const entry = await stat(filePath)
    if (!entry.isFile()) continue
    if (best === null || entry.size < best.bytes) best = { filePath, bytes: entry.size }
  }
  return best?.filePath ?? null
}

/** Reads the metadata of a GGUF file, no further than the header. */
export async function readGgufFile(filePath: string): Promise<GgufMetadata> {
  const file = await open(filePath)
  try {
    const { size } = await file.stat()
    let wanted = Math.min(size, FIRST_READ_BYTES)
    for (;;) {
      const bytes = new Uint8Array(wanted)
      const { bytesRead } = await file.read(bytes, 0, wanted, 0)
      const read = readGgufMetadata(bytes.subarray(0, bytesRead), size)
      freeMemory(bytes.buffer)
      if (read.kind === 'metadata') return read.metadata
      if (bytesRead < wanted) throw failure(`${filePath} was truncated while it was read`)
      // Extending by the missing bytes alone would parse the header again for each string.
      wanted = Math.min(size, Math.max(read.bytesNeeded, wanted * NEXT_READ_FACTOR))
    }
  } catch (thrown) {
    const message = messageOf(thrown)
    throw failure(`cannot read ${filePath}: ${message}`, thrown)
  } finally {
    await file.close()
  }
}

async function loadGguf(filePath: string): Promise<LoadedModelText> {
  const metadata = await readGgufFile(filePath)
  const name = nameOf(metadata.name) ?? path.basename(filePath).replace(/\.gguf$/i, '')
  const about = { name, kind: 'gguf' as const, ggufPath: filePath }
  const folder = path.dirname(filePath)
  const hasJson = await stat(path.join(folder, 'tokenizer.json')).then(
    (entry) => entry.isFile(),
    () => false,
  )
  if (!hasJson) return { ...modelTextFromGguf(metadata), ...about }
  const beside = await loadFolder(folder)
  if (!isSameVocabulary(beside, metadata)) return { ...modelTextFromGguf(metadata), ...about }
  return { ...beside, contextLength: metadata.contextLength ?? beside.contextLength, ...about }
}

/** Two files in one folder need not belong together, so names of ids from the whole vocabulary are compared. */
function isSameVocabulary({ tokenizer }: ModelText, metadata: GgufMetadata): boolean {
  const tokens = metadata.values.get('tokenizer.ggml.tokens')
  if (!Array.isArray(tokens) || tokenizer.vocabSize > tokens.length) return false
  const step = Math.max(1, Math.floor(tokenizer.vocabSize / 1000))
  for (let id = 0; id < tokenizer.vocabSize; id += step) {
    const name = tokenizer.tokenName(id)
    if (name !== '' && name !== tokens[id]) return false
  }
  return true
}

async function loadFolder(folder: string): Promise<ModelText> {
  const [tokenizer, tokenizerConfig, config, generationConfig, chatTemplate] = await Promise.all([
    readJson(folder, 'tokenizer.json'),
    readJson(folder, 'tokenizer_config.json'),
    readJson(folder, 'config.json'),
    readJson(folder, 'generation_config.json'),
    readText(folder, 'chat_template.jinja'),
  ])
  try {
    return modelTextFromHuggingFace({
      tokenizer,
      tokenizerConfig,
      config,
      generationConfig,
      ...(chatTemplate !== null && { chatTemplate }),
    })
  } catch (thrown) {
    throw failure(`${folder}: ${messageOf(thrown)}`, thrown)
  }
}

async function readJson(folder: string, name: string): Promise<unknown> {
  const text = await readText(folder, name)
  if (text === null) return undefined
  try {
    return JSON.parse(text)
  } catch (thrown) {
    const message = messageOf(thrown)
    throw failure(
      `${path.join(folder, name)} is not valid JSON (${message}); download it again`,
      thrown,
    )
  }
}

/** Null: the file does not exist. */
async function readText(folder: string, name: string): Promise<string | null> {
  const file = path.join(folder, name)
  try {
    // A pipe or a device might never end.
    if ((await stat(file)).isFile()) return await readFile(file, 'utf8')
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw failure(`cannot read ${file}`, thrown)
  }
  throw failure(`cannot read ${file}: it is not a file`)
}

/** `general.name`, converted to a name that can be used in requests. */
function nameOf(text: string | null): string | null {
  const name = (text ?? '').trim().toLowerCase().replace(/\s+/g, '-')
  return name === '' ? null : name
}

function failure(message: string, cause?: unknown): BatonError {
  return new BatonError('model.load_failed', message, cause === undefined ? {} : { cause })
}
