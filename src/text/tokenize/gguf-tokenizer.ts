/** A `Tokenizer` from the vocabulary in a GGUF file: kinds `gpt2` (byte-level BPE) and `llama` (SPM). */
import { BatonError } from '../../base/index.ts'
import { ByteLevelBpe } from './byte-level-bpe.ts'
import type { GgufValue } from '../gguf/gguf-cursor.ts'
import { ggufFlag, ggufNumber, ggufText } from '../gguf/gguf-metadata.ts'
import type { GgufMetadata } from '../gguf/gguf-metadata.ts'
import { ggufPreTokenizer } from './gguf-pre-tokenizers.ts'
import { readMerges } from './merge-table.ts'
import { patternPreTokenizer } from './pre-tokenizer.ts'
import { SpmTokenizer } from './spm-tokenizer.ts'
import { ScorePairs } from './symbol-pairs.ts'
import type { AddedToken, Tokenizer } from './tokenizer.ts'

/** Values of `tokenizer.ggml.token_type`. */
const TOKEN_TYPE = Object.freeze({ unknown: 2, control: 3, userDefined: 4, byte: 6 })
const BYTE_NAME = /^<0x([0-9A-Fa-f]{2})>$/

interface Vocabulary {
  readonly names: readonly string[]
  readonly ids: ReadonlyMap<string, number>
  readonly byteIds: ReadonlyMap<number, number>
  readonly addedTokens: readonly AddedToken[]
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
}

export function tokenizerFromGguf(metadata: GgufMetadata): Tokenizer {
  const { values } = metadata
  const model = ggufText(values, 'tokenizer.ggml.model')
  const vocabulary = readVocabulary(values)
  if (model === 'gpt2') return byteLevelBpe(values, vocabulary)
  if (model === 'llama') return spm(values, vocabulary)
  throw unusable(`its tokenizer kind is '${model ?? 'none'}', expected gpt2 or llama`)
}

function byteLevelBpe(
  values: ReadonlyMap<string, GgufValue>,
  vocabulary: Vocabulary,
): ByteLevelBpe {
  const name = ggufText(values, 'tokenizer.ggml.pre') ?? 'default'
  const preTokenizer = ggufPreTokenizer(name)
  if (preTokenizer === null) throw unusable(`its pre-tokenizer '${name}' is not known`)
  return new ByteLevelBpe({
    ...vocabulary,
    merges: readMerges(values.get('tokenizer.ggml.merges'), vocabulary.ids),
    preTokenizer: patternPreTokenizer(preTokenizer.patterns),
    normalize: null,
    ignoreMerges: preTokenizer.ignoreMerges ?? false,
    addsBos: addsBos(values, vocabulary, preTokenizer.addsBos ?? false),
  })
}

function spm(values: ReadonlyMap<string, GgufValue>, vocabulary: Vocabulary): SpmTokenizer {
  const scores = values.get('tokenizer.ggml.scores')
  const takesBlank = ggufFlag(values, 'tokenizer.ggml.add_space_prefix') ?? true
  return new SpmTokenizer({
    ...vocabulary,
    pairs: new ScorePairs(
      vocabulary.names,
      vocabulary.ids,
      ArrayBuffer.isView(scores) ? scores : [],
    ),
    blankPrefix: { where: takesBlank ? 'stretch' : 'never', evenBeforeBlank: true },
    unknownTokenId: idAt(values, 'tokenizer.ggml.unknown_token_id', vocabulary.names.length),
    addsBos: addsBos(values, vocabulary, true),
  })
}

function readVocabulary(values: ReadonlyMap<string, GgufValue>): Vocabulary {
  const names = values.get('tokenizer.ggml.tokens')
  if (!isTexts(names) || names.length === 0) throw unusable('it contains no vocabulary')
  const types = values.get('tokenizer.ggml.token_type')
  const ids = new Map<string, number>()
  const byteIds = new Map<number, number>()
  const addedTokens: AddedToken[] = []
  names.forEach((text, id) => {
    const type = ArrayBuffer.isView(types) ? types[id] : undefined
    if (type === TOKEN_TYPE.control || type === TOKEN_TYPE.unknown || TURN_ENDS.has(text)) {
      addedTokens.push({ id, text, control: true })
      return
    }
    const byte = type === TOKEN_TYPE.byte ? BYTE_NAME.exec(text)?.[1] : undefined
    if (byte !== undefined) {
      byteIds.set(Number.parseInt(byte, 16), id)
      return
    }
    if (type === TOKEN_TYPE.userDefined) addedTokens.push({ id, text, control: false })
    if (!ids.has(text)) ids.set(text, id)
  })
  return {
    names,
    ids,
    byteIds,
    addedTokens,
    bosTokenId: idAt(values, 'tokenizer.ggml.bos_token_id', names.length),
    eosTokenIds: endIds(values, names, addedTokens),
  }
}

/**
 * Tokens that end a turn in the common chat formats. Conversions to GGUF often do not mark them as end or even as
 * control tokens; llama.cpp also goes by the name.
 */
const TURN_ENDS: ReadonlySet<string> = new Set(
  (
    '<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <end_of_turn> <|endoftext|> </s> <|eom_id|> <EOT> ' +
    '[EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <｜end▁of▁sentence｜>'
  ).split(' '),
)

function endIds(
  values: ReadonlyMap<string, GgufValue>,
  names: readonly string[],
  addedTokens: readonly AddedToken[],
): readonly number[] {
  const ids = ['eos', 'eot', 'eom']
    .map((role) => idAt(values, `tokenizer.ggml.${role}_token_id`, names.length))
    .filter((id) => id !== null)
  for (const token of addedTokens) {
    if (token.control && TURN_ENDS.has(token.text)) ids.push(token.id)
  }
  // In the harmony format `<|end|>` ends a message, not the turn.
  const isHarmony = addedTokens.some((token) => token.text === '<|return|>')
  return [...new Set(ids)].filter((id) => !(isHarmony && names[id] === '<|end|>'))
}

function addsBos(
  values: ReadonlyMap<string, GgufValue>,
  vocabulary: Vocabulary,
  byDefault: boolean,
): boolean {
  return (
    vocabulary.bosTokenId !== null &&
    (ggufFlag(values, 'tokenizer.ggml.add_bos_token') ?? byDefault)
  )
}

function idAt(
  values: ReadonlyMap<string, GgufValue>,
  key: string,
  vocabSize: number,
): number | null {
  const id = ggufNumber(values, key)
  return id !== null && id < vocabSize ? id : null
}

function isTexts(value: GgufValue | undefined): value is readonly string[] {
  return Array.isArray(value) && typeof value[0] === 'string'
}

function unusable(reason: string): BatonError {
  return new BatonError(
    'model.load_failed',
    `cannot use the tokenizer of this GGUF file: ${reason}; put the model's tokenizer.json beside the file`,
  )
}
