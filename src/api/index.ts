/**
 * Room `api`: converts the client's JSON and headers to request values, and replies to text.
 *
 * Owns the JSON, headers and SSE text of OpenAI, Anthropic and nvext (fields, requests, replies), and the HTTP status
 * of errors. May use: base, request. For: the frontend, and whoever writes an error body.
 */
export { parseChatRequest } from './requests/chat-request.ts'
export type { ChatCall } from './requests/chat-request.ts'
export {
  annotationEvent,
  ChatChoiceChunks,
  CompletionChoiceChunks,
  DONE_EVENT,
  KEEP_ALIVE_COMMENT,
  nvextEvent,
  usageEvent,
} from './replies/chunk-text.ts'
export type { ChoiceChunks } from './replies/chunk-text.ts'
export { parseTokenRequest } from './requests/token-request.ts'
export { parseCompletionRequest } from './requests/completion-request.ts'
export type { Prompt } from './requests/completion-request.ts'
export { CustomToolInput } from './fields/custom-tool.ts'
export { needsFeatures, refuseMissingFeatures } from './fields/engine-features.ts'
export { forcedCallSchema } from './fields/forced-call-schema.ts'
export { errorEvent, errorReply, errorTypeOf } from './replies/error-reply.ts'
export type { GenerationOptions } from './fields/generation-fields.ts'
export { readJsonObject, refuseUnwieldy } from './fields/json-body.ts'
export {
  asciiJson,
  quoteJson,
  withQuotedWorkerIds,
  withRawWorkerIds,
} from './fields/json-escape.ts'
export {
  chatLogprobsEntries,
  chatLogprobsJson,
  completionLogprobs,
  promptLogprobsEntries,
  tokenLogprobsEntries,
} from './replies/logprobs-text.ts'
export type { ScoredPrompt, TokenTexts } from './replies/logprobs-text.ts'
export {
  anthropicModelListJson,
  anthropicModelObject,
  modelListJson,
  modelObject,
} from './replies/model-list.ts'
export { annotationValue, isQueryOnly } from './fields/nvext.ts'
export { nvextJson } from './replies/nvext-reply.ts'
export type { WorkerSlots } from './replies/nvext-reply.ts'
export { openApiDocument } from './openapi.ts'
export { fieldsOf, operationsOf, typeOf } from './openapi-fields.ts'
export type { Content, OpenApi, OperationEntry, Schema, TypePart } from './openapi-fields.ts'
export { given } from './fields/plain-fields.ts'
export { clientFinishReason, usageJson } from './replies/reply-head.ts'
export type { ReplyHead, ReplyUsage } from './replies/reply-head.ts'
export { parseRoleCommand, parseWeight, parseWorkerCommand } from './requests/admin-requests.ts'
export type { WeightCall } from './requests/admin-requests.ts'
export { applyRoutingHeaders, sessionOf, traceparentOf } from './fields/routing-headers.ts'
export { routingOf } from './fields/routing-of-nvext.ts'
export {
  chatReplyJson,
  completionReplyJson,
  toolCallDeltaJson,
  toolCallStartJson,
} from './replies/whole-reply.ts'
export type { ToolCallReply, WholeChoice, WholeReply } from './replies/whole-reply.ts'
export {
  parseBusyThreshold,
  parseDetokenizeRequest,
  parseTokenizeRequest,
} from './requests/service-requests.ts'
export type { TokenizeCall } from './requests/service-requests.ts'
export {
  anthropicErrorEvent,
  anthropicErrorReply,
  anthropicEvent,
  anthropicMessage,
  anthropicMessageJson,
  messageDelta,
  textDelta,
  textDeltaOpening,
  toolUseJson,
} from './replies/anthropic-reply.ts'
export type { AnthropicEnd } from './replies/anthropic-reply.ts'
export { parseAnthropicCount, parseAnthropicMessages } from './requests/anthropic-request.ts'
export { embeddingReplyJson } from './replies/embedding-reply.ts'
export { parseEmbeddingRequest } from './requests/embedding-request.ts'
export type { EmbeddingCall } from './requests/embedding-request.ts'
export {
  customCallItem,
  functionCallItem,
  messageItem,
  reasoningItem,
  reasoningPart,
  responseDeltaEvent,
  responseEvent,
  responseObject,
  textPart,
} from './replies/responses-reply.ts'
export type { ResponseStatus } from './replies/responses-reply.ts'
export {
  itemsOf,
  parseConversation,
  parseItems,
  parseResponsesRequest,
  takeResponsesState,
  withReferredItems,
} from './requests/responses-request.ts'
export type { ResponsesState } from './requests/responses-request.ts'
export { parseResponseQuery } from './requests/response-query.ts'
export { invalid as invalidField } from './fields/generation-fields.ts'
export {
  PAGE_LIMITS,
  parseBatch,
  parseFileForm,
  parseLimit,
  parsePage,
} from './requests/batch-request.ts'
export type { BatchCall, FileForm, Page } from './requests/batch-request.ts'
export { parseClearCache } from './requests/admin-requests.ts'
export { parseRerank, parseScore } from './requests/rerank-request.ts'
export type { NamedText, RerankCall, ScoreCall } from './requests/rerank-request.ts'
export type { ToolPlace } from './fields/offered-tools.ts'
