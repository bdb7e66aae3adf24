/**
 * `/tokenize` and `/detokenize`: text to token ids with the model's tokenizer, and back.
 */
import { parseDetokenizeRequest, parseTokenizeRequest, readJsonObject } from '../../api/index.ts'
import type { ModelText } from '../../text/index.ts'
import { BatonError } from '../../base/index.ts'
import type { TokenizeCall } from '../../api/index.ts'
import { jsonReply } from './endpoint-status.ts'
import { offLoopOf } from '../generation/generation-job.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import { refuseOtherModels } from '../access/tenant-rules.ts'
import type { Caller } from '../access/caller.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import { chatPrompt, withinCount } from '../prompt/prompt.ts'
import type { OffLoop } from '../prompt/prompt.ts'

export async function answerTokenize(
  deps: GenerationDeps,
  http: HttpRequest,
  caller: Caller,
): Promise<HttpReply> {
  const call = parseTokenizeRequest(readJsonObject(http.body, http.headers['content-type']))
  const model = deps.registry.names.known(call.model)
  refuseOtherModels(caller, [call.model ?? model.name, model.name])
  const text = await model.text()
  const param = typeof call.prompt === 'string' ? 'prompt' : 'messages'
  const offLoop = offLoopOf(deps, model, text)
  const tokens = Array.from(
    await tokensOf(call, text, withinCount(offLoop, model.contextLength, param)),
  )
  return jsonReply(200, {
    count: tokens.length,
    max_model_len: model.contextLength ?? null,
    tokens,
    ...(call.withTexts ? { token_strs: tokens.map((id) => text.tokenizer.tokenName(id)) } : {}),
  })
}

export async function answerDetokenize(
  registry: ModelRegistry,
  http: HttpRequest,
  caller: Caller,
): Promise<HttpReply> {
  const call = parseDetokenizeRequest(readJsonObject(http.body, http.headers['content-type']))
  const model = registry.names.known(call.model)
  refuseOtherModels(caller, [call.model ?? model.name, model.name])
  const { tokenizer } = await model.text()
  const unknown = call.tokens.find((id) => id >= tokenizer.vocabSize)
  if (unknown !== undefined) {
    throw new BatonError(
      'request.invalid_argument',
      `\`tokens\`: token id ${unknown} is not in the vocabulary of ${tokenizer.vocabSize} tokens`,
      { data: { param: 'tokens' } },
    )
  }
  return jsonReply(200, {
    prompt: tokenizer.decode(call.tokens, { skipSpecialTokens: false }),
  })
}

async function tokensOf(
  { prompt, addSpecialTokens }: TokenizeCall,
  text: ModelText,
  offLoop: OffLoop,
): Promise<Uint32Array> {
  if (typeof prompt !== 'string') return (await chatPrompt(prompt, text, offLoop)).tokenIds
  const { tokenizer } = text
  const options = { special: true, addBos: addSpecialTokens && tokenizer.addsBos }
  return (await offLoop.encode(prompt, options)) ?? tokenizer.encode(prompt, options)
}
