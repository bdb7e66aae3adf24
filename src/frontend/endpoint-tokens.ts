/**
 * `/tokenize` and `/detokenize`: what the model's tokenizer makes of a text, and back.
 */
import { parseDetokenizeRequest, parseTokenizeRequest, readJsonObject } from '../api/index.ts'
import { encodeChat, renderChat } from '../text/index.ts'
import type { ModelText } from '../text/index.ts'
import { BatonError } from '../base/index.ts'
import type { TokenizeCall } from '../api/index.ts'
import { jsonReply } from './endpoint-status.ts'
import { offLoopOf } from './generation-job.ts'
import type { GenerationDeps } from './generation-job.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { OffLoop } from './prompt.ts'

export async function answerTokenize(deps: GenerationDeps, http: HttpRequest): Promise<HttpReply> {
  const call = parseTokenizeRequest(readJsonObject(http.body, http.headers['content-type']))
  const model = deps.registry.known(call.model)
  const text = await model.text()
  const tokens = Array.from(await tokensOf(call, text, offLoopOf(deps, model)))
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
): Promise<HttpReply> {
  const call = parseDetokenizeRequest(readJsonObject(http.body, http.headers['content-type']))
  const { tokenizer } = await registry.known(call.model).text()
  return jsonReply(200, {
    prompt: tokenizer.decode(call.tokens, { skipSpecialTokens: false }),
  })
}

async function tokensOf(
  call: TokenizeCall,
  text: ModelText,
  offLoop: OffLoop,
): Promise<Uint32Array> {
  const { tokenizer } = text
  if (call.messages === undefined) {
    const options = { special: true, addBos: call.addSpecialTokens && tokenizer.addsBos }
    return (await offLoop(call.prompt, options)) ?? tokenizer.encode(call.prompt, options)
  }
  if (text.template === null) {
    throw new BatonError('request.invalid_argument', 'the model has no chat template')
  }
  const rendered = renderChat(text.template, tokenizer, {
    messages: call.messages.map((message) => ({ ...message })),
    addGenerationPrompt: call.addGenerationPrompt,
  })
  const { literalRanges } = rendered
  const elsewhere = await offLoop(rendered.text, { special: true, literalRanges })
  return elsewhere ?? encodeChat(tokenizer, rendered)
}
