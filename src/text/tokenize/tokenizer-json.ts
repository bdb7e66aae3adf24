/**
 * Creates a `Tokenizer` from a `tokenizer.json` (and `tokenizer_config.json`). Byte-level BPE and SentencePiece-like
 * BPE, which most models have, use Baton's own code; all other kinds use the library.
 */
import { BatonError, isRecord, messageOf } from '../../base/index.ts'
import { ByteLevelBpe } from './byte-level-bpe.ts'
import { nameOfToken, recordOf, textOf } from '../../base/index.ts'
import type { JsonRecord } from '../../base/index.ts'
import { LibraryTokenizer } from './library-tokenizer.ts'
import type { TokenizerRoles } from './tokenizer-roles.ts'
import { readMerges } from './merge-table.ts'
import type { MergeTable } from './merge-table.ts'
import { GPT2_PATTERN, patternPreTokenizer } from './pre-tokenizer.ts'
import type { PreTokenizer } from './pre-tokenizer.ts'
import { readBlankPrefix } from './blank-prefix.ts'
import { SpmTokenizer } from './spm-tokenizer.ts'
import { MergePairs } from './symbol-pairs.ts'
import type { AddedToken, Tokenizer } from './tokenizer.ts'

interface TokenizerJsonOptions {
  /** Parsed `tokenizer.json`. */
  readonly json: unknown
  /** Parsed `tokenizer_config.json`, if there is one. */
  readonly config?: unknown
  /** EOS ids from `generation_config.json` or `config.json`; by default the configured EOS token. */
  readonly eosTokenIds?: readonly number[]
}

/** Names are stored in an array, so a huge id would cost memory. */
const TOKEN_ID_MAX = 2 ** 24

function isTokenId(id: unknown): id is number {
  return typeof id === 'number' && Number.isInteger(id) && id >= 0 && id <= TOKEN_ID_MAX
}

export function tokenizerFromJson(options: TokenizerJsonOptions): Tokenizer {
  try {
    const json = recordOf(options.json, 'tokenizer.json')
    const addedTokens = readAddedTokens(json)
    const roles = readRoles(
      json,
      recordOf(options.config ?? {}, 'tokenizer_config.json'),
      addedTokens,
      options,
    )
    return (
      byteLevelBpe(json, addedTokens, roles) ??
      sentencePieceBpe(json, addedTokens, roles) ??
      new LibraryTokenizer(json, options.config ?? {}, addedTokens, roles)
    )
  } catch (thrown) {
    throw new BatonError(
      'model.load_failed',
      `cannot use this tokenizer.json: ${messageOf(thrown)}; fetch the file of the model again`,
      { cause: thrown },
    )
  }
}

/** Null if the file needs anything that the fast implementation does not support. */
function byteLevelBpe(
  json: JsonRecord,
  addedTokens: readonly AddedToken[],
  roles: TokenizerRoles,
): ByteLevelBpe | null {
  const model = recordOf(json['model'], 'model')
  const preTokenizer = readPreTokenizer(json['pre_tokenizer'])
  const normalize = readNormalizer(json['normalizer'])
  if (!isPlainBpe(model) || model['byte_fallback'] === true) return null
  if (preTokenizer === null || normalize === undefined) return null
  const { ids, names, merges } = readBpeVocabulary(model, addedTokens)
  const ignoreMerges = model['ignore_merges'] === true
  return new ByteLevelBpe({
    names,
    ids,
    merges,
    addedTokens,
    preTokenizer,
    normalize,
    ignoreMerges,
    ...roles,
  })
}

/** BPE over characters with `▁` for blanks and byte tokens for unknown characters. */
function sentencePieceBpe(
  json: JsonRecord,
  addedTokens: readonly AddedToken[],
  roles: TokenizerRoles,
): SpmTokenizer | null {
  const model = recordOf(json['model'], 'model')
  const blankPrefix = readBlankPrefix(json['normalizer'], json['pre_tokenizer'])
  if (!isPlainBpe(model) || model['byte_fallback'] !== true || blankPrefix === null) return null
  if (model['ignore_merges'] === true) return null
  const { ids, names, merges } = readBpeVocabulary(model, addedTokens)
  const byteIds = new Map<number, number>()
  for (let byte = 0; byte < 256; byte++) {
    const name = `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`
    const id = ids.get(name)
    if (id !== undefined) byteIds.set(byte, id)
    ids.delete(name)
  }
  // Without all byte tokens an unknown character is one unknown token, which the library implements.
  if (byteIds.size < 256) return null
  return new SpmTokenizer({
    names,
    ids,
    byteIds,
    addedTokens,
    blankPrefix,
    pairs: new MergePairs(names.length, ids, merges),
    unknownTokenId: null,
    ...roles,
  })
}

function isPlainBpe(model: JsonRecord): boolean {
  const extras = ['continuing_subword_prefix', 'end_of_word_suffix', 'dropout']
  return model['type'] === 'BPE' && extras.every((name) => !model[name])
}

interface BpeVocabulary {
  /** Without control tokens. */
  readonly ids: Map<string, number>
  readonly names: readonly string[]
  readonly merges: MergeTable
}

function readBpeVocabulary(model: JsonRecord, addedTokens: readonly AddedToken[]): BpeVocabulary {
  const ids = new Map<string, number>()
  const names: string[] = []
  for (const [name, id] of Object.entries(recordOf(model['vocab'], 'model.vocab'))) {
    if (!isTokenId(id)) {
      throw new Error(`bad id of token ${name}`)
    }
    ids.set(name, id)
    names[id] = name
  }
  const merges = readMerges(model['merges'], ids)
  for (const token of addedTokens) {
    names[token.id] = token.text
    if (token.control) ids.delete(token.text)
  }
  for (let id = 0; id < names.length; id++) names[id] ??= ''
  return { ids, names, merges }
}

function readAddedTokens(json: JsonRecord): AddedToken[] {
  const list = json['added_tokens']
  if (list === undefined || list === null) return []
  if (!Array.isArray(list)) throw new Error('added_tokens is invalid: expected a list')
  return list.map((value: unknown) => {
    const token = recordOf(value, 'added token')
    const id = token['id']
    if (!isTokenId(id)) throw new Error('an added token without an id')
    return {
      id,
      text: textOf(token['content']),
      control: token['special'] === true,
      ...(token['lstrip'] === true && { stripLeft: true }),
      ...(token['rstrip'] === true && { stripRight: true }),
    }
  })
}

/** The patterns of a pre-tokenizer that ends with the byte alphabet; null for any other. */
function readPreTokenizer(value: unknown): PreTokenizer | null {
  if (!isRecord(value)) return null
  const parts = value['type'] === 'Sequence' ? value['pretokenizers'] : [value]
  if (!Array.isArray(parts)) return null
  const patterns: string[] = []
  let isByteLevel = false
  for (const part of parts as unknown[]) {
    if (!isRecord(part) || isByteLevel) return null
    if (part['type'] === 'ByteLevel') {
      if (part['add_prefix_space'] === true) return null
      if (part['use_regex'] !== false) patterns.push(GPT2_PATTERN)
      isByteLevel = true
    } else {
      const pattern = readCut(part)
      if (pattern === null) return null
      patterns.push(pattern)
    }
  }
  return isByteLevel ? patternPreTokenizer(patterns) : null
}

function readCut(part: JsonRecord): string | null {
  if (part['type'] === 'Digits') return part['individual_digits'] === true ? '\\p{N}' : '\\p{N}+'
  if (part['type'] !== 'Split' || part['behavior'] !== 'Isolated' || part['invert'] === true)
    return null
  const pattern = part['pattern']
  const regex = isRecord(pattern) ? pattern['Regex'] : undefined
  return typeof regex === 'string' ? regex : null
}

/** `undefined`: a normalizer that the fast implementation does not support. */
function readNormalizer(value: unknown): ((text: string) => string) | null | undefined {
  if (value === null || value === undefined) return null
  if (!isRecord(value)) return undefined
  if (value['type'] === 'NFC') return (text) => text.normalize('NFC')
  if (
    value['type'] === 'Sequence' &&
    Array.isArray(value['normalizers']) &&
    value['normalizers'].length === 0
  )
    return null
  return undefined
}

function readRoles(
  json: JsonRecord,
  config: JsonRecord,
  addedTokens: readonly AddedToken[],
  options: TokenizerJsonOptions,
): TokenizerRoles {
  const idOf = (value: unknown): number | null => {
    const name = nameOfToken(value)
    return addedTokens.find((token) => token.text === name)?.id ?? null
  }
  const bosTokenId = idOf(config['bos_token'])
  const eos = idOf(config['eos_token'])
  const eosTokenIds = options.eosTokenIds ?? (eos === null ? [] : [eos])
  // An explicit setting takes precedence; otherwise the post-processor tells.
  const said = config['add_bos_token']
  const addsBos =
    bosTokenId !== null && (typeof said === 'boolean' ? said : templateAddsBos(json, bosTokenId))
  return { bosTokenId, eosTokenIds, addsBos }
}

/** Whether the post-processor puts BOS before a text. */
function templateAddsBos(json: JsonRecord, bosTokenId: number): boolean {
  const top = json['post_processor']
  if (!isRecord(top)) return false
  const parts: unknown[] = Array.isArray(top['processors']) ? top['processors'] : [top]
  return parts.some((part) => {
    if (!isRecord(part) || part['type'] !== 'TemplateProcessing' || !Array.isArray(part['single']))
      return false
    const first: unknown = part['single'][0]
    const special = isRecord(first) ? first['SpecialToken'] : undefined
    const table = isRecord(part['special_tokens']) ? part['special_tokens'] : {}
    const row = isRecord(special) ? table[textOf(special['id'])] : undefined
    return isRecord(row) && Array.isArray(row['ids']) && row['ids'][0] === bosTokenId
  })
}
