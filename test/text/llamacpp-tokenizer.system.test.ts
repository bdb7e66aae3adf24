import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ffi } from '../../src/llamacpp/native/ffi.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadModelText, readGgufFile } from '../../src/host/tokenizer/model-files.ts'
import { findLibraries } from '../../src/llamacpp/native/library-files.ts'
import { loadLlamaApi } from '../../src/llamacpp/native/llama-api.ts'
import type { Pointer } from '../../src/llamacpp/native/llama-structs.ts'
import { tokenizerFromGguf } from '../../src/text/index.ts'
import type { Tokenizer } from '../../src/text/index.ts'
import { writeGguf } from '../gguf/gguf-writer.ts'
import type { GgufEntry } from '../gguf/gguf-writer.ts'
import { bpeVocabulary, spmVocabulary, trainMerges } from '../gguf/vocabularies.ts'
import { randomTexts, UNKIND_TEXTS } from './unkind-texts.ts'

const MODELS = fileURLToPath(new URL('../../models/storyteller/', import.meta.url))
const SEED = 20251121
const TEXTS = [...UNKIND_TEXTS, ...randomTexts(SEED, 300)]
// `ufakzeka` is not here: it is newer than the package's llama.cpp. It gave the same ids with the libraries of 3.22.1.
const PRE_TOKENIZERS = [
  'default gpt-2 qwen2 llama-bpe smollm falcon gpt-4o tekken deepseek-v3 dbrx qwen35 seed-coder',
  'minicpm5 bailingmoe',
].flatMap((names) => names.split(' '))

const llama = loadLlama()
let folder: string
let merges: readonly string[]

beforeAll(async () => {
  merges = trainMerges(TEXTS)
  folder = await mkdtemp(path.join(tmpdir(), 'baton-tokenizer-'))
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

type Tokenize = (
  vocab: Pointer,
  text: Uint8Array,
  length: number,
  tokens: Int32Array,
  tokensMax: number,
  addsSpecial: boolean,
  parsesSpecial: boolean,
) => number

function loadLlama() {
  const files = findLibraries(false)
  const native = loadLlamaApi(files, { keyLength: undefined, valueLength: undefined })
  const declaration = 'int32 llama_tokenize(void*, const uint8*, int32, int32*, int32, bool, bool)'
  const call: Tokenize = ffi.load(files.llama).func(declaration) as Tokenize
  return {
    api: native,
    tokenize(vocab: Pointer, text: string, special: boolean): number[] {
      const bytes = Buffer.from(text)
      const tokens = new Int32Array(bytes.length + 8)
      const count = call(vocab, bytes, bytes.length, tokens, tokens.length, false, special)
      if (count < 0) throw new Error(`llama.cpp has ${-count} tokens for ${bytes.length} bytes`)
      return [...tokens.subarray(0, count)]
    },
  }
}

/** Differences of all texts, with and without control tokens, so that a failure shows all of them. */
async function differences(tokenizer: Tokenizer, ggufPath: string): Promise<unknown[]> {
  const params = { ...llama.api.modelDefaults(), n_gpu_layers: 0, vocab_only: true }
  const model = llama.api.loadModel(ggufPath, params)
  if (model === null) throw new Error(`llama.cpp does not load ${ggufPath}`)
  const vocab = llama.api.vocabOf(model)
  const found: unknown[] = []
  for (const text of TEXTS) {
    for (const special of [true, false]) {
      const expected = llama.tokenize(vocab, text, special)
      const actual = [...tokenizer.encode(text, { special })]
      if (actual.join() !== expected.join()) found.push({ text, special, actual, expected })
    }
  }
  llama.api.freeModel(model)
  return found
}

async function written(
  name: string,
  entries: Readonly<Record<string, GgufEntry>>,
): Promise<{ readonly ggufPath: string; readonly tokenizer: Tokenizer }> {
  const ggufPath = path.join(folder, `${name}.gguf`)
  await writeFile(ggufPath, writeGguf(entries))
  return { ggufPath, tokenizer: tokenizerFromGguf(await readGgufFile(ggufPath)) }
}

describe(`tokenizers compared with llama.cpp, ${TEXTS.length} texts (seed ${SEED})`, () => {
  it.each(['storyteller-q8_0.gguf', 'storyteller-f16.gguf'])('%s - same ids', async (name) => {
    const tokenizer = tokenizerFromGguf(await readGgufFile(MODELS + name))
    expect(await differences(tokenizer, MODELS + name)).toEqual([])
  })

  it('tokenizer.json of storyteller - same ids', async () => {
    const { tokenizer } = await loadModelText(MODELS)
    expect(await differences(tokenizer, `${MODELS}storyteller-q8_0.gguf`)).toEqual([])
  })

  it.each(PRE_TOKENIZERS)(
    'GGUF with a BPE vocabulary and pre-tokenizer %s - same ids',
    async (pre) => {
      const { ggufPath, tokenizer } = await written(pre, bpeVocabulary(pre, merges))
      expect(await differences(tokenizer, ggufPath)).toEqual([])
    },
  )

  it.each([
    { addSpacePrefix: true, acrossWords: false },
    { addSpacePrefix: false, acrossWords: false },
    { addSpacePrefix: true, acrossWords: true },
  ])('GGUF with an SPM vocabulary, %o - same ids', async (options) => {
    const name = `spm-${Number(options.addSpacePrefix)}-${Number(options.acrossWords)}`
    const { ggufPath, tokenizer } = await written(name, spmVocabulary(TEXTS, options))
    expect(await differences(tokenizer, ggufPath)).toEqual([])
  })
})
