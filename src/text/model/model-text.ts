/**
 * What the frontend needs to know about a model's text: tokenizer, chat template, context length, EOS ids. Built from
 * parsed values; room `host` reads the files.
 */
import { isRecord } from '../../base/index.ts'
import { ChatTemplate } from '../template/chat-template.ts'
import { ggufNumber, ggufText } from '../gguf/gguf-metadata.ts'
import type { GgufMetadata } from '../gguf/gguf-metadata.ts'
import { tokenizerFromGguf } from '../tokenize/gguf-tokenizer.ts'
import { nameOfToken } from '../../base/index.ts'
import type { JsonRecord } from '../../base/index.ts'
import { tokenizerFromJson } from '../tokenize/tokenizer-json.ts'
import type { Tokenizer } from '../tokenize/tokenizer.ts'

export interface ModelText {
  readonly tokenizer: Tokenizer
  /** Null: the model has no chat template and serves only completions. */
  readonly template: ChatTemplate | null
  readonly contextLength: number | null
  readonly eosTokenIds: readonly number[]
  readonly bosTokenId: number | null
}

/** The parsed JSON files of a Hugging Face folder; only `tokenizer` is required. */
interface HuggingFaceFiles {
  readonly tokenizer: unknown
  readonly tokenizerConfig?: unknown
  readonly config?: unknown
  readonly generationConfig?: unknown
  /** `chat_template.jinja`, a separate file in newer folders. */
  readonly chatTemplate?: string
}

export function modelTextFromHuggingFace(files: HuggingFaceFiles): ModelText {
  const tokenizerConfig = isRecord(files.tokenizerConfig) ? files.tokenizerConfig : {}
  const config = isRecord(files.config) ? files.config : {}
  const generationConfig = isRecord(files.generationConfig) ? files.generationConfig : {}
  const eosTokenIds = idsOf(generationConfig['eos_token_id']) ?? idsOf(config['eos_token_id'])
  const tokenizer = tokenizerFromJson({
    json: files.tokenizer,
    config: tokenizerConfig,
    ...(eosTokenIds !== null && { eosTokenIds }),
  })
  const said = files.chatTemplate ?? tokenizerConfig['chat_template']
  const [source, toolUse] = [templateSource(said), templateNamed(said, TOOL_USE)]
  return {
    tokenizer,
    template: templateOf(source, toolUse, tokenNames(tokenizerConfig)),
    contextLength: contextLengthOf(config, tokenizerConfig),
    eosTokenIds: tokenizer.eosTokenIds,
    bosTokenId: tokenizer.bosTokenId,
  }
}

export function modelTextFromGguf(metadata: GgufMetadata): ModelText {
  const tokenizer = tokenizerFromGguf(metadata)
  const { bosTokenId, eosTokenIds } = tokenizer
  const eosTokenId = ggufNumber(metadata.values, 'tokenizer.ggml.eos_token_id')
  const toolUse = ggufText(metadata.values, `tokenizer.chat_template.${TOOL_USE}`)
  const names = {
    ...(bosTokenId !== null && { bosToken: tokenizer.tokenName(bosTokenId) }),
    ...(eosTokenId !== null && { eosToken: tokenizer.tokenName(eosTokenId) }),
  }
  return {
    tokenizer,
    template: templateOf(metadata.chatTemplate, toolUse, names),
    contextLength: metadata.contextLength,
    eosTokenIds,
    bosTokenId,
  }
}

function idsOf(value: unknown): readonly number[] | null {
  const ids: unknown[] = Array.isArray(value) ? value : [value]
  const numbers = ids.filter(
    (id): id is number => typeof id === 'number' && Number.isInteger(id) && id >= 0,
  )
  return numbers.length === 0 ? null : numbers
}

/** The name of a template that a model has for requests with tools beside the usual one (Command R, Hermes). */
const TOOL_USE = 'tool_use'

interface TokenNames {
  readonly bosToken?: string
  readonly eosToken?: string
}

function templateOf(
  source: string | null,
  toolUse: string | null,
  names: TokenNames,
): ChatTemplate | null {
  if (source === null) return null
  return new ChatTemplate(source, { ...names, ...(toolUse !== null && { toolUse }) })
}

/** One template, or a list of named ones of which `default` is used. */
function templateSource(value: unknown): string | null {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return null
  const first = (value as unknown[]).find(isRecord)?.['template']
  return templateNamed(value, 'default') ?? (typeof first === 'string' ? first : null)
}

function templateNamed(value: unknown, name: string): string | null {
  if (!Array.isArray(value)) return null
  const named = (value as unknown[]).filter(isRecord).find((entry) => entry['name'] === name)
  return typeof named?.['template'] === 'string' ? named['template'] : null
}

function tokenNames(config: JsonRecord): TokenNames {
  const bosToken = nameOfToken(config['bos_token'])
  const eosToken = nameOfToken(config['eos_token'])
  return { ...(bosToken !== null && { bosToken }), ...(eosToken !== null && { eosToken }) }
}

/** Some tokenizers write 10^30 for "no limit", which is not a length. */
const CONTEXT_LENGTH_MAX = 1e9

function contextLengthOf(config: JsonRecord, tokenizerConfig: JsonRecord): number | null {
  const textConfig = isRecord(config['text_config']) ? config['text_config'] : config
  const candidates = [
    textConfig['max_position_embeddings'],
    textConfig['n_positions'],
    textConfig['max_seq_len'],
    tokenizerConfig['model_max_length'],
  ]
  for (const value of candidates) {
    if (typeof value === 'number' && value > 0 && value < CONTEXT_LENGTH_MAX) return value
  }
  return null
}
