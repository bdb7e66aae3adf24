/**
 * The pre-tokenizers named in a GGUF file (`tokenizer.ggml.pre`), with llama.cpp's names. An unknown name is refused,
 * because ids could differ from the engine's.
 */
interface GgufPreTokenizer {
  /** Applied one after the other. */
  readonly patterns: readonly string[]
  /** A piece that is itself a token is used without merging. */
  readonly ignoreMerges?: boolean
  /** BOS precedes a prompt unless the file says otherwise. */
  readonly addsBos?: boolean
}

const SHORT_FORMS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
const REST = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

/** Words with at most one preceding non-letter; runs of digits as given by `digits`. */
const words = (digits: string): string =>
  `${SHORT_FORMS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${REST}`

/** Words split where lower case is followed by upper case. */
const cased = (digits: string, shortForms: string): string =>
  [
    `[^\\r\\n\\p{L}\\p{N}]?((?=[\\p{L}])([^a-z]))*((?=[\\p{L}])([^A-Z]))+${shortForms}`,
    `[^\\r\\n\\p{L}\\p{N}]?((?=[\\p{L}])([^a-z]))+((?=[\\p{L}])([^A-Z]))*${shortForms}`,
    digits,
    ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*',
    REST,
  ].join('|')

const gpt2: GgufPreTokenizer = { patterns: [GPT2] }
const digitWise: GgufPreTokenizer = { patterns: ['\\p{N}', GPT2] }
const qwen2: GgufPreTokenizer = { patterns: [words('\\p{N}')] }
const threeDigits: GgufPreTokenizer = { patterns: [words('\\p{N}{1,3}')] }
const llama3: GgufPreTokenizer = { ...threeDigits, ignoreMerges: true, addsBos: true }
const gpt4o: GgufPreTokenizer = { patterns: [cased('\\p{N}{1,3}', `${SHORT_FORMS}?`)] }
const deepseek3: GgufPreTokenizer = {
  patterns: [
    '\\p{N}{1,3}',
    '[一-龥぀-ゟ゠-ヿ]+',
    `[!"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_\`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|${REST}`,
  ],
}
const fallback: GgufPreTokenizer = {
  patterns: ['[\\p{P}\\$\\+<=>\\^~\\|]+', GPT2, '\\p{N}+', '[0-9][0-9][0-9]'],
}

const named = (preTokenizer: GgufPreTokenizer, names: string): [string, GgufPreTokenizer][] =>
  names.split(' ').map((name) => [name, preTokenizer])

const PRE_TOKENIZERS: ReadonlyMap<string, GgufPreTokenizer> = new Map([
  ...named(fallback, 'default'),
  ...named(
    gpt2,
    'gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert',
  ),
  ...named(
    gpt2,
    'roberta-bpe jina-v1-en jina-v2-code exaone4 mpt olmo jais trillion granite-docling',
  ),
  ...named(digitWise, 'starcoder refact command-r smollm codeshell exaone minerva-7b mellum2'),
  ...named(
    qwen2,
    'qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2',
  ),
  ...named(
    llama3,
    'llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano',
  ),
  ...named(threeDigits, 'dbrx smaug-bpe glm4 chatglm-bpe'),
  ...named(gpt4o, 'gpt-4o llama4 kanana2 talkie minimax-m2'),
  ...named(deepseek3, 'deepseek-v3 hunyuan-dense joyai-llm hy_v4'),
  [
    'qwen35',
    {
      patterns: [
        `${SHORT_FORMS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${REST}`,
      ],
    },
  ],
  ['tekken', { patterns: [cased('\\p{N}', '')], ignoreMerges: true, addsBos: true }],
  ['falcon', { patterns: ['[\\p{P}\\$\\+<=>\\^~\\|`]+', GPT2, '[0-9][0-9][0-9]'] }],
  ['minicpm5', { patterns: ['\\p{N}{1,3}', words('\\p{N}+')], ignoreMerges: true }],
  ['ufakzeka', { patterns: [words('\\p{N}').slice(SHORT_FORMS.length + 1)] }],
  ...named(
    {
      patterns: [
        `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
      ],
    },
    'bailingmoe bailingmoe2 llada-moe',
  ),
  [
    'seed-coder',
    {
      patterns: [
        `${SHORT_FORMS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${REST}`,
      ],
    },
  ],
])

export function ggufPreTokenizer(name: string): GgufPreTokenizer | null {
  return PRE_TOKENIZERS.get(name) ?? null
}
