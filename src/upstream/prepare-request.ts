/**
 * Prepares a request to a foreign server: validates it, then writes it in the server's dialect.
 */
import { BatonError } from '../base/index.ts'
import type { Chunk, GenerateRequest } from '../request/index.ts'
import type { ModelText } from '../text/index.ts'
import type { Dialect, UpstreamFacts, WriteContext, WrittenRequest } from './dialects/dialect.ts'
import type { OutputBook } from './output-book.ts'

export function decoded(text: ModelText | null, tokenIds: Uint32Array): string {
  if (text !== null) return text.tokenizer.decode(tokenIds, { skipSpecialTokens: false })
  throw new BatonError(
    'config.invalid',
    'the engine accepts text only: give --model with its tokenizer',
  )
}

/** A decode leg that fetches or is sent KV. */
export function needsKv({ prefillResult, bootstrap }: GenerateRequest): boolean {
  return prefillResult !== undefined || bootstrap !== undefined
}

/** For the router's self-check: whether a decode leg used the KV of the prefill leg. */
export function handOverNews(
  { kvMoved }: OutputBook,
  { prefillResult }: GenerateRequest,
): Pick<Chunk, 'engineData'> {
  if (prefillResult === undefined || kvMoved === undefined) return {}
  return { engineData: { kv_moved: kvMoved } }
}

/** Null: the request was cancelled while it was prepared. */
export async function written(
  dialect: Dialect,
  request: GenerateRequest,
  context: WriteContext,
): Promise<WrittenRequest | null> {
  try {
    const pending = dialect.write(request, context)
    return pending instanceof Promise ? await pending : pending
  } catch (thrown) {
    if (context.signal.aborted) return null
    throw thrown
  }
}

/** Some servers crash at an id outside their vocabulary, so such a request is refused. */
export function checkRequest(
  request: GenerateRequest,
  { vocabSize, facts }: { readonly vocabSize: number; readonly facts: UpstreamFacts },
): void {
  const { tokenIds } = request
  if (tokenIds.length === 0) {
    throw new BatonError('request.invalid_argument', 'the prompt has no tokens')
  }
  const wrong = tokenIds.find((id) => id >= vocabSize)
  if (wrong !== undefined) {
    throw new BatonError(
      'request.invalid_argument',
      `token id ${wrong} is not in the vocabulary of ${vocabSize} tokens`,
      { data: { tokenId: wrong, vocabSize } },
    )
  }
  const { contextLength } = facts
  if (contextLength !== undefined && tokenIds.length >= contextLength) {
    throw new BatonError(
      'request.context_length_exceeded',
      `the prompt has ${tokenIds.length} tokens, more than the engine's context of ${contextLength} allows`,
      { data: { promptTokens: tokenIds.length, contextLength } },
    )
  }
}
