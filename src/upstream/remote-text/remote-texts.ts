/**
 * Tokenizers and templates of models whose folders are on other machines, from the servers that run them: one per
 * model, shared by its servers.
 *
 * Owns: the questions by which a server's control tokens and template are learned. A server that does not report
 * enough (vLLM without `--enable-tokenizer-info-endpoint`, SGLang, others) has none here.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { AddedToken } from '../../text/index.ts'
import { askJson } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { UpstreamFacts } from '../dialects/dialect.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'
import { LlamaServerSource, VllmSource } from './remote-source.ts'
import type { RemoteSource } from './remote-source.ts'
import { LEARNING_TEXT } from './learning-text.ts'
import { descriptionDigest, remoteTextOf } from './text-description.ts'
import type { RemoteText, TextDescription } from './text-description.ts'

export interface JoinedText {
  readonly text: RemoteText
  /** What others need to make the same of it, with `source` for what is not in there. */
  readonly description: TextDescription
  readonly source: RemoteSource
  /** Equal for engines of the same model. */
  readonly digest: string
  /** The server is not asked any more; idempotent. */
  leave(): void
}

interface Server {
  readonly kind: UpstreamKind
  readonly client: UpstreamClient
  readonly facts: UpstreamFacts
}

interface Description {
  readonly template: string | null
  readonly bosToken: string | null
  readonly eosToken: string | null
  /** Names that may be those of control tokens. */
  readonly names: readonly string[]
  /** Control tokens known to exist. */
  readonly added: readonly AddedToken[]
}

const DEADLINE_MS = 10_000
const NAMES_MAX = 256
/** For a server that does not report it; ids that do not exist cost little memory. */
const VOCABULARY_MAX = 2 ** 19
const NAME =
  /<\|[^\s|<>]{1,40}\|>|<｜[^<>]{1,40}｜>|<\/?[a-z_]{1,32}>|<(?:start|end)_of_turn>|\[\/?[A-Z_]{2,24}\]/g

/** Limit of different models and templates; the one joined least recently is dropped. */
const TEXTS_MAX = 256

interface KnownText {
  readonly text: RemoteText
  readonly description: TextDescription
  readonly digest: string
}

export class RemoteTexts {
  /** By model and template: servers of one model may have been started with different templates. */
  readonly #texts = new Map<string, KnownText>()
  /** One server after the other, because servers of one model share what the first one reports. */
  #joining: Promise<unknown> = Promise.resolve()

  /** By the digest of the engine's card. */
  textOf(digest: string | undefined): RemoteText | null {
    for (const known of this.#texts.values()) if (known.digest === digest) return known.text
    return null
  }

  /**
   * Null: the server does not report enough. Rejects when it cannot be asked, or tokenises differently from other
   * servers of the model.
   */
  async join(server: Server): Promise<JoinedText | null> {
    const joining = this.#joining.then(() => this.#join(server))
    this.#joining = joining.catch(() => undefined)
    return await joining
  }

  async #join(server: Server): Promise<JoinedText | null> {
    const source = sourceOf(server)
    if (source === null) return null
    const { kind, client, facts } = server
    const said = await (kind === 'vllm' ? ofVllm(client) : ofLlamaServer(client))
    if (said === null) return null
    const key = JSON.stringify([facts.model, said.template])
    const known = this.#texts.get(key)
    const description = known?.description ?? (await describedText(said, facts, source))
    const text = known?.text ?? remoteTextOf(description)
    if (known !== undefined) await refuseOther(known.text, source)
    const leave = text.tokenizer.addSource(source)
    // Tokens learned from one text need not be asked for one by one.
    const probe = await text.tokenizer.encodeThere(LEARNING_TEXT, { special: false })
    const digest = descriptionDigest(description, probe)
    this.#texts.delete(key)
    this.#texts.set(key, { text, description, digest })
    const [oldest] = this.#texts.keys()
    if (this.#texts.size > TEXTS_MAX && oldest !== undefined) this.#texts.delete(oldest)
    return { text, description, source, digest, leave }
  }
}

function sourceOf({ kind, client }: Server): RemoteSource | null {
  if (kind === 'llama-server') return new LlamaServerSource(client)
  return kind === 'vllm' ? new VllmSource(client) : null
}

async function describedText(
  said: Description,
  facts: UpstreamFacts,
  source: RemoteSource,
): Promise<TextDescription> {
  const found = await controlTokens(said.names, source)
  const byId = new Map([...found, ...said.added].map((token) => [token.id, token]))
  const addedTokens = [...byId.values()]
  const idOf = (name: string | null): number | null =>
    addedTokens.find(({ text }) => text === name)?.id ?? null
  const eos = idOf(said.eosToken)
  const { template, bosToken, eosToken } = said
  return {
    vocabSize: facts.vocabSize ?? VOCABULARY_MAX,
    bosTokenId: idOf(bosToken),
    eosTokenIds: eos === null ? [] : [eos],
    addedTokens,
    template,
    bosToken,
    eosToken,
    contextLength: facts.contextLength ?? null,
    knowsPlainText: source.knowsPlainText,
  }
}

async function ofLlamaServer(client: UpstreamClient): Promise<Description | null> {
  const props = await askJson(client, '/props', { deadlineMs: DEADLINE_MS })
  if (!isRecord(props)) return null
  const template = textOrNull(props['chat_template'])
  const bosToken = textOrNull(props['bos_token'])
  const eosToken = textOrNull(props['eos_token'])
  const names = [...(template?.match(NAME) ?? []), bosToken ?? '', eosToken ?? '']
  return { template, bosToken, eosToken, names, added: [] }
}

async function ofVllm(client: UpstreamClient): Promise<Description | null> {
  const config = await askJson(client, '/tokenizer_info', { deadlineMs: DEADLINE_MS })
  if (!isRecord(config)) return null
  const bosToken = nameOf(config['bos_token'])
  const eosToken = nameOf(config['eos_token'])
  const more = ['additional_special_tokens', 'extra_special_tokens'].flatMap((key) => {
    const list = config[key]
    return Array.isArray(list) ? list.map(nameOf) : []
  })
  const special = new Set([
    bosToken,
    eosToken,
    nameOf(config['pad_token']),
    nameOf(config['unk_token']),
    ...more,
  ])
  const decoder = isRecord(config['added_tokens_decoder']) ? config['added_tokens_decoder'] : {}
  const added = Object.entries(decoder).flatMap(([id, entry]) => {
    const text = nameOf(entry)
    if (text === null || !/^\d+$/.test(id)) return []
    const isNamedSo = /^<\|.*\|>$|^<｜.*｜>$/.test(text)
    const says = isRecord(entry) ? entry['special'] === true : isNamedSo
    return [{ id: Number(id), text, control: says || special.has(text) }]
  })
  const template = textOrNull(config['chat_template'])
  return { template, bosToken, eosToken, added, names: [bosToken ?? '', eosToken ?? ''] }
}

/** A name that the server encodes as one token, but only when control tokens are recognised. */
async function controlTokens(
  names: readonly string[],
  source: RemoteSource,
): Promise<readonly AddedToken[]> {
  const found: AddedToken[] = []
  for (const name of [...new Set(names)].slice(0, NAMES_MAX)) {
    if (name === '') continue
    const [only, ...others] = await source.encode(name, { special: true, addBos: false })
    if (only === undefined || others.length > 0) continue
    const plain = source.knowsPlainText
      ? await source.encode(name, { special: false, addBos: false })
      : []
    const isPlainToo = plain.length === 1 && plain[0]?.id === only.id
    found.push({ id: only.id, text: name, control: !isPlainToo })
  }
  return found
}

/** Servers of one model must tokenise equally; a few texts are compared. */
async function refuseOther({ tokenizer }: RemoteText, source: RemoteSource): Promise<void> {
  const theirs = await source.encode(LEARNING_TEXT, { special: false, addBos: false })
  const ours = await tokenizer.encodeThere(LEARNING_TEXT, { special: false }).catch(() => null)
  if (ours === null) return
  if (ours.length === theirs.length && ours.every((id, i) => id === theirs[i]?.id)) return
  throw new BatonError(
    'model.load_failed',
    'the engine tokenises differently from the other engines of its model',
  )
}

function nameOf(value: unknown): string | null {
  return textOrNull(isRecord(value) ? value['content'] : value)
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}
