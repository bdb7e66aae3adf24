/**
 * Reads answers of vLLM from both of its routes with token ids, streamed or whole.
 */
import { isRecord } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { TokenLogprobs } from '../../request/index.ts'
import type { Piece, PieceReader } from './dialect.ts'
import { finishOfWord } from './finish-words.ts'
import { countIn, idsIn, listIn, numberIn, textIn } from './plain-values.ts'
import { outputIdsIn } from './output-ids.ts'
import { errorOfEvent, failureOfFinish, withoutIds } from './upstream-error.ts'
import { prefillResultOf } from './vllm-transfer.ts'

interface PrefillLeg {
  /** The id under which the request was sent. */
  readonly requestId: string
  /** Called with the `kv_transfer_params` of the answer. */
  readonly onTransfer: (params: unknown) => void
}

export class VllmReader implements PieceReader {
  readonly #clock: Clock
  readonly #leg: PrefillLeg | undefined

  constructor(clock: Clock, leg?: PrefillLeg) {
    this.#clock = clock
    this.#leg = leg
  }

  read(json: unknown): Piece | null {
    const error = errorOfEvent(json)
    if (error !== null) return { tokenIds: [], error }
    const [choice] = listIn(json, 'choices')
    const cachedTokens = countIn(json, 'usage', 'prompt_tokens_details', 'cached_tokens')
    const promptTokens = countIn(json, 'usage', 'prompt_tokens')
    const finish = textIn(choice, 'finish_reason')
    const failure = failureOfFinish(finish)
    if (failure !== null) return { tokenIds: [], error: failure }
    const hasText = (textIn(choice, 'text') ?? '') !== ''
    // Of a prefill leg only the transfer parameters count.
    if (hasText && this.#leg === undefined && !Array.isArray(valueOf(choice, 'token_ids'))) {
      return { tokenIds: [], error: withoutIds() }
    }
    const logprobs = logprobsIn(choice)
    const reason = stopReasonOf(choice)
    const params = isRecord(json) ? json['kv_transfer_params'] : undefined
    if (isRecord(params)) this.#leg?.onTransfer(params)
    const prefillResult = prefillResultOf(params, this.#clock.epochMs(), this.#leg?.requestId)
    return {
      tokenIds: (this.#leg === undefined ? outputIdsIn : idsIn)(choice, 'token_ids'),
      ...(logprobs.length === 0 ? {} : { logprobs }),
      ...(finish === undefined ? {} : { finish: finishOfWord(finish) }),
      ...(reason === undefined ? {} : { stopReason: reason }),
      ...(cachedTokens === undefined ? {} : { cachedTokens }),
      // A vLLM that is only a consumer reports 0 although it fetched KV, so 0 means unknown.
      ...(cachedTokens !== undefined && cachedTokens > 0 ? { kvMoved: true } : {}),
      ...(promptTokens === undefined || choice !== undefined ? {} : { promptTokens }),
      ...(prefillResult === null ? {} : { prefillResult }),
    }
  }
}

/** The prefill leg left no KV that could be fetched. */
export class NotMovedReader implements PieceReader {
  readonly #reader: PieceReader

  constructor(reader: PieceReader) {
    this.#reader = reader
  }

  read(json: unknown): Piece | null {
    const piece = this.#reader.read(json)
    return piece === null ? null : { ...piece, kvMoved: false }
  }
}

/** Records whether the server reported the KV that it was to fetch. */
export class TransferReader implements PieceReader {
  readonly #reader: PieceReader
  isTold = false

  constructor(reader: PieceReader) {
    this.#reader = reader
  }

  read(json: unknown): Piece | null {
    const piece = this.#reader.read(json)
    if (piece?.kvMoved !== undefined) this.isTold = true
    return piece
  }
}

function valueOf(json: unknown, key: string): unknown {
  return isRecord(json) ? json[key] : undefined
}

function stopReasonOf(choice: unknown): number | string | undefined {
  return numberIn(choice, 'stop_reason') ?? textIn(choice, 'stop_reason')
}

/** `/generate` reports the id; `/v1/completions` reports the name `token_id:<id>`. */
function logprobsIn(choice: unknown): readonly TokenLogprobs[] {
  const content = listIn(choice, 'logprobs', 'content')
  if (content.length > 0) {
    return content.map((entry) => ({
      tokenId: numberIn(entry, 'token_id') ?? 0,
      logprob: numberIn(entry, 'logprob') ?? -Infinity,
      top: listIn(entry, 'top_logprobs').map((rival) => ({
        tokenId: numberIn(rival, 'token_id') ?? 0,
        logprob: numberIn(rival, 'logprob') ?? -Infinity,
      })),
    }))
  }
  const values = listIn(choice, 'logprobs', 'token_logprobs')
  const tops = listIn(choice, 'logprobs', 'top_logprobs')
  return listIn(choice, 'logprobs', 'tokens').map((name, i) => {
    const value = values[i]
    const top = tops[i]
    return {
      tokenId: idOfName(name),
      logprob: typeof value === 'number' ? value : -Infinity,
      top: isRecord(top)
        ? Object.entries(top)
            .map(([rival, logprob]) => ({ tokenId: idOfName(rival), logprob: Number(logprob) }))
            .toSorted((a, b) => b.logprob - a.logprob)
        : [],
    }
  })
}

function idOfName(name: unknown): number {
  return Number(typeof name === 'string' ? name.replace('token_id:', '') : Number.NaN)
}
