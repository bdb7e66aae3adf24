/**
 * The description of a model's text side without its vocabulary, which stays at the engine: control tokens,
 * template, limits. It is learned from a server once, and also sent from a worker beside its engine to frontends.
 *
 * Owns: the validation of a worker's description, and the digest by which two engines are compared.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { hashToBigint, xxh3Text } from '../../kv/index.ts'
import { ChatTemplate } from '../../text/index.ts'
import type { AddedToken, ModelText } from '../../text/index.ts'
import { RemoteTokenizer } from './remote-tokenizer.ts'

export interface TextDescription {
  readonly vocabSize: number
  readonly bosTokenId: number | null
  readonly eosTokenIds: readonly number[]
  readonly addedTokens: readonly AddedToken[]
  readonly template: string | null
  readonly bosToken: string | null
  readonly eosToken: string | null
  readonly contextLength: number | null
  /** True when text can be encoded without recognising control tokens. */
  readonly knowsPlainText: boolean
}

export interface RemoteText extends ModelText {
  readonly tokenizer: RemoteTokenizer
}

const ADDED_TOKENS_MAX = 4096
const TEMPLATE_CHARACTERS_MAX = 1024 ** 2
const IDS_MAX = 2 ** 24

export function remoteTextOf(description: TextDescription): RemoteText {
  const { template, bosToken, eosToken, contextLength, eosTokenIds, bosTokenId } = description
  return {
    tokenizer: new RemoteTokenizer(description),
    template:
      template === null
        ? null
        : new ChatTemplate(template, {
            ...(bosToken === null ? {} : { bosToken }),
            ...(eosToken === null ? {} : { eosToken }),
          }),
    contextLength,
    eosTokenIds,
    bosTokenId,
  }
}

/**
 * Equal for engines that process a chat equally, as far as they report; `probe`: ids of a text that every engine
 * gets.
 */
export function descriptionDigest(description: TextDescription, probe: Uint32Array): string {
  const { contextLength: _context, ...text } = description
  const added = text.addedTokens.toSorted((a, b) => a.id - b.id)
  const facts = JSON.stringify([Object.entries({ ...text, addedTokens: added }), [...probe]])
  return hashToBigint(...xxh3Text(facts))
    .toString(16)
    .padStart(16, '0')
}

/** Throws `transport.protocol`: a worker's message is not trusted. */
export function parseDescription(value: unknown): TextDescription {
  const fields = isRecord(value) ? value : {}
  const isFine =
    isId(fields['vocabSize']) &&
    isNullOr(fields['bosTokenId'], isId) &&
    isListOf(fields['eosTokenIds'], isId) &&
    isListOf(fields['addedTokens'], isAddedToken) &&
    isNullOr(fields['template'], isShortText) &&
    isNullOr(fields['bosToken'], isShortText) &&
    isNullOr(fields['eosToken'], isShortText) &&
    isNullOr(fields['contextLength'], isId) &&
    typeof fields['knowsPlainText'] === 'boolean'
  if (isFine) return fields as unknown as TextDescription
  throw new BatonError('transport.protocol', "a worker's description of its tokenizer is malformed")
}

function isNullOr(value: unknown, check: (value: unknown) => boolean): boolean {
  return value === null || check(value)
}

function isListOf(value: unknown, check: (value: unknown) => boolean): boolean {
  return Array.isArray(value) && value.length <= ADDED_TOKENS_MAX && value.every(check)
}

function isId(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= IDS_MAX
}

function isShortText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= TEMPLATE_CHARACTERS_MAX
}

function isAddedToken(value: unknown): boolean {
  if (!isRecord(value)) return false
  const { id, text, control } = value
  return isId(id) && isShortText(text) && typeof control === 'boolean'
}
