/** Room `api`: the client's JSON and headers to request values, and replies to text. */
export { parseChatRequest } from './chat-request.ts'
export type { ChatCall } from './chat-request.ts'
export {
  annotationEvent,
  ChatChoiceChunks,
  CompletionChoiceChunks,
  DONE_EVENT,
  KEEP_ALIVE_COMMENT,
  nvextEvent,
  usageEvent,
} from './chunk-text.ts'
export type { ChoiceChunks } from './chunk-text.ts'
export { parseCompletionRequest } from './completion-request.ts'
export type { Prompt } from './completion-request.ts'
export { refuseMissingFeatures } from './engine-features.ts'
export { errorEvent, errorReply, errorTypeOf } from './error-reply.ts'
export type { GenerationOptions } from './generation-fields.ts'
export { readJsonObject } from './json-body.ts'
export { asciiJson, quoteJson, withRawWorkerIds } from './json-escape.ts'
export { chatLogprobsEntries, chatLogprobsJson, completionLogprobs } from './logprobs-text.ts'
export type { TokenFaces } from './logprobs-text.ts'
export {
  anthropicModelListJson,
  anthropicModelObject,
  modelListJson,
  modelObject,
} from './model-list.ts'
export { annotationValue, isQueryOnly } from './nvext.ts'
export { nvextJson } from './nvext-reply.ts'
export type { WorkerSlots } from './nvext-reply.ts'
export { openApiDocument } from './openapi.ts'
export { given } from './plain-fields.ts'
export { clientFinishReason, usageJson } from './reply-head.ts'
export type { ReplyHead, ReplyUsage } from './reply-head.ts'
export { applyRoutingHeaders, sessionOf, traceparentOf } from './routing-headers.ts'
export { routingOf } from './routing-of-nvext.ts'
export {
  chatReplyJson,
  completionReplyJson,
  toolCallArgumentsJson,
  toolCallStartJson,
} from './whole-reply.ts'
export type { ToolCallReply, WholeChoice, WholeReply } from './whole-reply.ts'
export {
  parseBusyThreshold,
  parseDetokenizeRequest,
  parseTokenizeRequest,
} from './service-requests.ts'
export type { TokenizeCall } from './service-requests.ts'
export {
  anthropicErrorEvent,
  anthropicErrorReply,
  anthropicEvent,
  anthropicMessage,
  messageDelta,
  textDelta,
  textDeltaOpening,
  toolUseBlock,
} from './anthropic-reply.ts'
export type { AnthropicEnd } from './anthropic-reply.ts'
export { parseAnthropicCount, parseAnthropicMessages } from './anthropic-request.ts'
export { embeddingReplyJson } from './embedding-reply.ts'
export { parseEmbeddingRequest } from './embedding-request.ts'
export type { EmbeddingCall } from './embedding-request.ts'
export {
  functionCallItem,
  messageItem,
  reasoningItem,
  reasoningPart,
  responseDeltaEvent,
  responseEvent,
  responseObject,
  textPart,
} from './responses-reply.ts'
export type { ResponseStatus } from './responses-reply.ts'
export { parseResponsesRequest } from './responses-request.ts'
