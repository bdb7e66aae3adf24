/**
 * The dialect of any OpenAI server without token ids: the prompt is sent as text to `/v1/completions`, and text is
 * returned.
 *
 * The prompt is rendered with the model's own template and decoded from Baton's tokens, so that everything except
 * ids works: stop strings, tools, reasoning, migration by text. Servers differ in where usage is reported, whether
 * `[DONE]` is sent and how errors look; none of that is relied on.
 */
import { BatonError } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { askJson } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { firstModel } from '../client/model-list.ts'
import type {
  Dialect,
  Piece,
  PieceReader,
  UpstreamFacts,
  WriteContext,
  WrittenRequest,
} from './dialect.ts'
import { finishOfWord } from './finish-words.ts'
import { countIn, given, listIn, numberIn, textIn } from './plain-values.ts'
import { errorOfEvent, failureOfFinish } from './upstream-error.ts'

const DEADLINE_MS = 15_000

export class OpenAiDialect implements Dialect {
  readonly knowsMinTokens = true

  async describe(client: UpstreamClient, signal: AbortSignal): Promise<UpstreamFacts> {
    // Some servers list no model or fail to; then the name has to be given.
    const model = firstModel(
      await askJson(client, '/v1/models', { deadlineMs: DEADLINE_MS, signal }),
    )
    const contextLength = numberIn(model, 'max_model_len') ?? numberIn(model, 'context_length')
    return {
      model: textIn(model, 'id') ?? '',
      features: ['penalties', 'seed'],
      ...(contextLength === undefined ? {} : { contextLength }),
    }
  }

  write(request: GenerateRequest, { decode, facts }: WriteContext): WrittenRequest {
    const { sampling, stop, routing } = request
    refuseUnknown(request)
    const body = given({
      model: routing.loraName ?? facts.model,
      prompt: decode(request.tokenIds),
      max_tokens: stop.maxTokens,
      temperature: sampling.temperature,
      top_p: sampling.topP,
      seed: sampling.seed,
      presence_penalty: sampling.presencePenalty,
      frequency_penalty: sampling.frequencyPenalty,
      stream: true,
      stream_options: { include_usage: true },
    })
    return {
      http: {
        method: 'POST',
        path: '/v1/completions',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      },
      reader: new TextReader(),
    }
  }
}

/** Refuses fields that such a server would silently ignore. */
function refuseUnknown({ stop, sampling }: GenerateRequest): void {
  const asked = [
    ['min_tokens', (stop.minTokens ?? 0) > 0],
    ['stop_token_ids', (stop.stopTokenIds ?? []).length > 0],
    ['ignore_eos', stop.ignoreEos === true],
    ['top_k', (sampling.topK ?? -1) > 0],
  ] as const
  const param = asked.find(([, isAsked]) => isAsked)?.[0]
  if (param === undefined) return
  throw new BatonError(
    'request.unsupported_parameter',
    `\`${param}\` is not supported: the engine accepts text and the standard fields of OpenAI only`,
    { data: { param } },
  )
}

class TextReader implements PieceReader {
  read(json: unknown): Piece | null {
    const error = errorOfEvent(json)
    if (error !== null) return { tokenIds: [], error }
    const [choice] = listIn(json, 'choices')
    const text =
      textIn(choice, 'text') ??
      textIn(choice, 'delta', 'content') ??
      textIn(choice, 'message', 'content')
    const finish = textIn(choice, 'finish_reason')
    const failure = failureOfFinish(finish)
    if (failure !== null) return { tokenIds: [], error: failure }
    const cachedTokens = countIn(json, 'usage', 'prompt_tokens_details', 'cached_tokens')
    const promptTokens = countIn(json, 'usage', 'prompt_tokens')
    const completionTokens = countIn(json, 'usage', 'completion_tokens')
    return {
      tokenIds: [],
      ...(text === undefined || text === '' ? {} : { text }),
      ...(finish === undefined ? {} : { finish: finishOfWord(finish) }),
      ...(cachedTokens === undefined ? {} : { cachedTokens }),
      ...(promptTokens === undefined ? {} : { promptTokens }),
      ...(completionTokens === undefined ? {} : { completionTokens }),
    }
  }
}
