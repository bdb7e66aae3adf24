/**
 * Digests of a model's text side, which workers and frontends compare to see whether they use the same tokenizer and
 * template.
 *
 * A tokenizer is identified by its behaviour: the names of its ids, and the ids of texts that exercise it. The same
 * tokenizer read from a GGUF file and from a Hugging Face folder therefore has the same digest.
 */
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { modelFactsText } from '../../request/index.ts'
import type { EngineConfig, ModelAgreement, ModelTextDigest } from '../../request/index.ts'
import type { ChatTemplate, ModelText, Tokenizer } from '../../text/index.ts'

const DIGEST_CHARACTERS = 32
/** What converters to GGUF write for rows of the model without a token. */
const PADDING = /^\[PAD\d+\]$/
/** Number of tokens whose text is tokenised again; a larger vocabulary is sampled evenly. */
const PROBED_TOKENS = 32_768
/** Number of tokens that are joined to one text. */
const RUN_TOKENS = 8
/** A prime number, so that neighbours in the vocabulary are not neighbours in the texts. */
const STRIDE = 7_919

/** Words, numbers, blanks, punctuation, scripts and code, which tokenizers treat differently. */
const PROBES = [
  '',
  ' ',
  'Hello, world!',
  'hello  world   and\tthe\n\n\nrest\r\n',
  "I'll say it's 'quoted' and they'd've gone; WE'RE HERE.",
  '0 1 12 123 1234 12345 3.14159 1,000,000 1e-9 0x1F ½ Ⅷ',
  'naïve café Ångström ÀÉÎÕÜ ﬁﬂ Straße İstanbul',
  'e\u0301 and \u00e9, \u212b and \u00c5',
  'привет мир, שלום עולם, مرحبا بالعالم, नमस्ते दुनिया, สวัสดีชาวโลก',
  '你好，世界。こんにちは世界、안녕하세요 세계',
  '👋🏽 👨‍👩‍👧‍👦 🇪🇺 \u{1f9ea}\u0000\u0007\u200b\ufeff\ufffd',
  'function f(x) {\n    return x ** 2 // square\n}\n\n\tif (a<=b&&c!==d) {}',
  '{"key": [1, 2.5, null, true], "url": "https://example.org/a?b=c&d=%20#e"}',
  '<s></s><unk><pad><|endoftext|><|im_start|><|eot_id|>[INST]<bos><eos>',
  '#$%&()*+,-./:;<=>?@[\\]^_`{|}~--- === ...... !!!???',
] as const

interface ReadModel {
  /** Null: the files cannot be read here, so they are not compared. */
  readonly text: ModelText | null
  /** The template of an engine that renders with its own instead of the one in `text`; null: it has none. */
  readonly engineTemplate?: string | null
  readonly weights?: string | null
}

export function modelAgreementOf(
  engine: EngineConfig,
  { text, engineTemplate = null, weights = null }: ReadModel,
): ModelAgreement {
  const digest = {
    ...(text === null ? {} : modelTextDigest(text)),
    ...(engineTemplate === null ? {} : { template: templateDigest(engineTemplate) }),
    ...(weights === null ? {} : { weights }),
  }
  const checksum = finish(
    createHash('sha256').update(modelFactsText({ engine, agreement: digest })),
  )
  return { ...digest, checksum }
}

export function modelTextDigest({
  tokenizer,
  template,
}: ModelText): Required<Omit<ModelTextDigest, 'weights'>> {
  return {
    vocabulary: vocabularyDigest(tokenizer),
    tokenizer: tokenizerDigest(tokenizer),
    template: templateDigest(template?.source ?? '', forToolsOf(template)),
  }
}

/** The source of the template for requests with tools; null: it is the usual one. */
function forToolsOf(template: ChatTemplate | null): string | null {
  return template === null || template.forTools === template ? null : template.forTools.source
}

/** Jinja drops one line feed at the end, and so does a server that reports its template. */
function templateDigest(source: string, forTools: string | null = null): string {
  const sources = forTools === null ? [source] : [source, forTools]
  const text = sources.map((each) => each.replace(/\n$/, '')).join('\0')
  return finish(createHash('sha256').update(text))
}

function vocabularyDigest(tokenizer: Tokenizer): string {
  const hash = createHash('sha256')
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    const name = tokenizer.tokenName(id)
    if (name !== '' && !PADDING.test(name)) hash.update(`${id} ${name}\n`)
  }
  return finish(hash)
}

function tokenizerDigest(tokenizer: Tokenizer): string {
  const hash = createHash('sha256')
  for (const probe of PROBES) {
    addIds(hash, tokenizer.encode(probe, { special: true }))
    addIds(hash, tokenizer.encode(probe, { special: false, addBos: true }))
  }
  for (const text of vocabularyTexts(tokenizer)) {
    addIds(hash, tokenizer.encode(text, { special: false }))
  }
  return finish(hash)
}

/** The vocabulary's own words, in an order that gives them unusual neighbours. */
function* vocabularyTexts(tokenizer: Tokenizer): Generator<string> {
  const { vocabSize } = tokenizer
  const count = Math.min(vocabSize, PROBED_TOKENS)
  let run = ''
  for (let index = 0; index < count; index++) {
    // Covers all ids of a small vocabulary once, and evenly spaced ones of a large vocabulary.
    const id = Math.floor((((index * STRIDE) % count) * vocabSize) / count)
    run += tokenizer.decode([id])
    if (index % RUN_TOKENS === RUN_TOKENS - 1 || index === count - 1) {
      yield run
      run = ''
    }
  }
}

function addIds(hash: Hash, ids: Uint32Array): void {
  hash.update(`${ids.join()};`)
}

function finish(hash: Hash): string {
  return hash.digest('hex').slice(0, DIGEST_CHARACTERS)
}
