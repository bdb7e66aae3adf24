/**
 * Small vocabularies for tests, trained on the test texts without splitting them into words, so that the ids show
 * where a pre-tokenizer splits.
 */
import type { GgufEntry } from './gguf-writer.ts'

const MODEL: Readonly<Record<string, GgufEntry>> = {
  'general.architecture': { type: 'string', value: 'llama' },
  'general.name': { type: 'string', value: 'Vocabulary Only' },
  'llama.context_length': { type: 'u32', value: 512 },
  'llama.embedding_length': { type: 'u32', value: 64 },
  'llama.block_count': { type: 'u32', value: 1 },
  'llama.feed_forward_length': { type: 'u32', value: 64 },
  'llama.attention.head_count': { type: 'u32', value: 4 },
  'llama.attention.head_count_kv': { type: 'u32', value: 2 },
  'llama.attention.layer_norm_rms_epsilon': { type: 'f32', value: 1e-5 },
}

const CONTROL_TOKENS = ['<|begin|>', '<|end|>', '<s>', '</s>'] as const
const USER_DEFINED_TOKENS = ['<think>', '</think>', '  '] as const

/** BPE merges over whole texts, in order; the same for every pre-tokenizer. */
export function trainMerges(texts: readonly string[]): readonly string[] {
  const alphabet = byteAlphabet()
  const merges: string[] = []
  let words = texts.map((text) => Array.from(Buffer.from(text), (byte) => alphabet[byte]!))
  for (let i = 0; i < 500; i++) {
    const pair = mostFrequentPair(words, [...CONTROL_TOKENS, ...USER_DEFINED_TOKENS])
    if (pair === null) break
    merges.push(pair.join(' '))
    words = words.map((word) => join(word, pair))
  }
  return merges
}

export function bpeVocabulary(
  pre: string,
  merges: readonly string[],
): Readonly<Record<string, GgufEntry>> {
  const alphabet = byteAlphabet()
  const tokens = [...new Set([...alphabet, ...merges.map((pair) => pair.replace(' ', ''))])]
  const plain = tokens.length
  tokens.push(...CONTROL_TOKENS, ...USER_DEFINED_TOKENS)
  const types = tokens.map((_, id) => typeOf(id, plain))
  return {
    ...MODEL,
    'tokenizer.ggml.model': { type: 'string', value: 'gpt2' },
    'tokenizer.ggml.pre': { type: 'string', value: pre },
    'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
    'tokenizer.ggml.token_type': { type: 'i32s', value: types },
    'tokenizer.ggml.merges': { type: 'strings', value: merges },
    'tokenizer.ggml.bos_token_id': { type: 'u32', value: plain },
    'tokenizer.ggml.eos_token_id': { type: 'u32', value: plain + 1 },
  }
}

export function spmVocabulary(
  texts: readonly string[],
  options: { readonly addSpacePrefix: boolean; readonly acrossWords: boolean },
): Readonly<Record<string, GgufEntry>> {
  const tokens = ['<unk>', '<s>', '</s>', '<|begin|>', '<think>']
  const types = [2, 3, 3, 3, 4]
  for (let byte = 0; byte < 256; byte++) {
    tokens.push(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
    types.push(6)
  }
  const scores = tokens.map(() => 0)
  // llama.cpp reads a token of the file up to its first NUL, so no token contains one.
  const escaped = texts.map((text) =>
    text
      .replace(/\p{Surrogate}/gu, '\uFFFD')
      .replaceAll('\0', '')
      .replaceAll(' ', '▁'),
  )
  // Only of every second character; the others become byte tokens.
  const characters = [...new Set(escaped.join(''))].filter((_, i) => i % 2 === 0)
  let words: string[][] = escaped
    .flatMap((text) => (options.acrossWords ? [text] : text.split(/(?<=[^▁])(?=▁)/u)))
    .map((text) => Array.from(text))
  const learned = new Set(['▁', ...characters])
  for (let i = 0; i < 300; i++) {
    const pair = mostFrequentPair(words, tokens)
    if (pair === null) break
    learned.add(pair.join(''))
    words = words.map((word) => join(word, pair))
  }
  // Scores repeat, so that the leftmost of several equal pairs has to win.
  ;[...learned].forEach((name, i) => {
    tokens.push(name)
    types.push(1)
    scores.push(-Math.floor(i / 3))
  })
  return {
    ...MODEL,
    'tokenizer.ggml.model': { type: 'string', value: 'llama' },
    'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
    'tokenizer.ggml.scores': { type: 'f32s', value: scores },
    'tokenizer.ggml.token_type': { type: 'i32s', value: types },
    'tokenizer.ggml.bos_token_id': { type: 'u32', value: 1 },
    'tokenizer.ggml.eos_token_id': { type: 'u32', value: 2 },
    'tokenizer.ggml.unknown_token_id': { type: 'u32', value: 0 },
    'tokenizer.ggml.add_bos_token': { type: 'bool', value: true },
    'tokenizer.ggml.add_space_prefix': { type: 'bool', value: options.addSpacePrefix },
  }
}

/** The same kind of vocabulary as in the model of a `tokenizer.json`: merges over characters, byte fallback. */
export function byteFallbackModel(texts: readonly string[]): Readonly<Record<string, unknown>> {
  const reserved = ['<unk>', '<s>', '</s>']
  for (let byte = 0; byte < 256; byte++) {
    reserved.push(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
  }
  const escaped = texts.map((text) => text.replace(/\p{Surrogate}/gu, '').replaceAll(' ', '▁'))
  let words = escaped.map((text) => Array.from(text))
  const names = new Set([...reserved, ...words.flat()])
  const merges: string[][] = []
  for (let i = 0; i < 300; i++) {
    const pair = mostFrequentPair(words, reserved)
    if (pair === null) break
    merges.push(pair)
    names.add(pair.join(''))
    words = words.map((word) => join(word, pair))
  }
  const vocab = Object.fromEntries([...names].map((name, id) => [name, id]))
  return { type: 'BPE', unk_token: '<unk>', fuse_unk: true, byte_fallback: true, vocab, merges }
}

function typeOf(id: number, plain: number): number {
  if (id < plain) return 1
  return id < plain + CONTROL_TOKENS.length ? 3 : 4
}

function byteAlphabet(): string[] {
  let moved = 0
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrintable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad)
    return String.fromCodePoint(isPrintable ? byte : 0x100 + moved++)
  })
}

/** llama.cpp treats tokens with these names as control tokens, whatever the file says. */
const TAKEN = ['<|im_end|>', '<|end|>', '<|endoftext|>', '</s>']

function mostFrequentPair(
  words: readonly (readonly string[])[],
  reserved: readonly string[],
): [string, string] | null {
  const counts = new Map<string, number>()
  for (const word of words) {
    for (let i = 0; i + 1 < word.length; i++) {
      const pair = `${word[i]} ${word[i + 1]}`
      counts.set(pair, (counts.get(pair) ?? 0) + 1)
    }
  }
  let best: string | null = null
  for (const [pair, count] of counts) {
    const name = pair.replace(' ', '')
    if (reserved.includes(name) || TAKEN.includes(name)) continue
    if (count > 1 && (best === null || count > counts.get(best)!)) best = pair
  }
  return best === null ? null : (best.split(' ') as [string, string])
}

function join(word: readonly string[], [left, right]: readonly [string, string]): string[] {
  const joined: string[] = []
  for (let i = 0; i < word.length; i++) {
    const isPair = word[i] === left && word[i + 1] === right
    joined.push(isPair ? left + right : word[i]!)
    if (isPair) i++
  }
  return joined
}
