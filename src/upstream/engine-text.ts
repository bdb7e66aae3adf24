/**
 * Finds the tokenizer and the template of an engine's model: in the given folder, where the server says its model
 * is, or, when neither can be read here, at the server itself. Both sides are compared before the first request.
 */
import { BatonError } from '../base/index.ts'
import type { ModelText } from '../text/index.ts'
import type { UpstreamClient } from './client/upstream-client.ts'
import type { Dialect, UpstreamFacts } from './dialects/dialect.ts'
import type { UpstreamKind } from './dialects/dialect-table.ts'
import type { JoinedText, RemoteTexts } from './remote-text/remote-texts.ts'
import { compareChats, compareTexts, refuseOtherTokenizer } from './text-check.ts'

export interface EngineTextOptions {
  /** The folder of tokenizer and template. Absent: where the server says its model is. */
  readonly modelPath?: string
  /** The path on this machine of a model that the server names; absent: the name is used as a path. */
  readonly localPath?: (named: string) => string
  /** Reads `modelPath`; absent: texts are not compared. */
  readonly loadText?: (modelPath: string) => Promise<ModelText>
  /**
   * If files cannot be read here: tokenizers and templates from the servers themselves. Absent: the start fails
   * then.
   */
  readonly remoteTexts?: RemoteTexts
  /** Called for limitations, with a text for the operator. */
  readonly onNote?: (note: string) => void
}

interface EngineServer {
  readonly client: UpstreamClient
  readonly facts: UpstreamFacts
  readonly dialect: Dialect
  readonly kind: UpstreamKind
}

export interface EngineText {
  readonly modelPath: string | undefined
  readonly text: ModelText | null
  /** Set when tokenizer and template are the server's; null: they are read here. */
  readonly remote: JoinedText | null
}

/**
 * The tokenizer is at a path of the server that cannot be read here, and the server does not report enough of it.
 */
export class UnreadableText extends BatonError {
  constructor(message: string, cause?: unknown) {
    super('model.load_failed', message, cause === undefined ? {} : { cause })
  }
}

/** Rejects with `model.load_failed`, which says which option to give. */
export async function findText(
  options: EngineTextOptions,
  server: EngineServer,
): Promise<EngineText> {
  const { loadText, localPath, modelPath } = options
  const { client, dialect, facts } = server
  const named = modelPath ?? facts.modelPath
  const path = named === undefined ? undefined : (localPath?.(named) ?? named)
  if (loadText === undefined) return { modelPath: path, text: null, remote: null }
  const read = path === undefined ? null : await loadText(path).catch(() => null)
  if (read === null && modelPath === undefined) {
    const remote = await remoteText(options, server)
    if (remote !== null) return { modelPath: undefined, text: remote.text, remote }
  }
  const url = client.url.text
  if (path === undefined) {
    throw new UnreadableText(
      `the engine at ${url} does not report where its model is: give --model with its folder or GGUF file, or --forward`,
    )
  }
  const text =
    read ??
    (await loadText(path).catch((thrown: unknown) => {
      const why = BatonError.from(thrown).message
      const message = `the tokenizer of the engine at ${url} is needed here: give --model with its folder or GGUF file, or --forward (${why})`
      throw modelPath === undefined
        ? new UnreadableText(message, thrown)
        : new BatonError('model.load_failed', message, { cause: thrown })
    }))
  const foreign = async (sample: string) => (await dialect.tokenize?.(client, sample)) ?? null
  const source = modelPath === undefined ? `the model at ${path}, which it reports` : '--model'
  refuseOtherTokenizer(await compareTexts(text, foreign), source)
  if (!(await hasOtherTemplate(text, server))) return { modelPath: path, text, remote: null }
  const remote = modelPath === undefined ? await remoteText(options, server) : null
  options.onNote?.(
    remote === null
      ? `renders chats with another template than ${source}: chats are rendered with that of ${source}; give --model with a folder that has the engine's template, or --forward`
      : `renders chats with another template than ${source}: chats are rendered with the engine's`,
  )
  return remote === null
    ? { modelPath: path, text, remote }
    : { modelPath: undefined, text: remote.text, remote }
}

/** True when the server was started with a template of its own (`--chat-template`, `--chat-template-file`). */
async function hasOtherTemplate(
  text: ModelText,
  { client, dialect, facts }: EngineServer,
): Promise<boolean> {
  const { chatTemplate } = facts
  // Jinja drops one line feed at the end.
  const plain = (source: string | undefined): string => (source ?? '').replace(/\n$/, '')
  if (chatTemplate !== undefined) return plain(chatTemplate) !== plain(text.template?.source)
  const differing = await compareChats(text, {
    theirs: async (messages) => (await dialect.tokenizeChat?.(client, messages)) ?? null,
    ours: (chat, literalRanges) =>
      Promise.resolve(text.tokenizer.encode(chat, { special: true, literalRanges })),
  })
  return differing > 0
}

/** Null: the server does not report enough, or its template is rendered differently here. */
async function remoteText(
  { onNote, remoteTexts }: EngineTextOptions,
  { client, dialect, facts, kind }: EngineServer,
): Promise<JoinedText | null> {
  const joined = (await remoteTexts?.join({ kind, client, facts })) ?? null
  if (joined === null) return null
  const { tokenizer } = joined.text
  const differing = await compareChats(joined.text, {
    theirs: async (messages) => (await dialect.tokenizeChat?.(client, messages)) ?? null,
    ours: (text, literalRanges) => tokenizer.encodeThere(text, { special: true, literalRanges }),
  })
  if (differing === 0) return joined
  joined.leave()
  onNote?.(`renders ${differing} of its own chats differently from its template`)
  return null
}
