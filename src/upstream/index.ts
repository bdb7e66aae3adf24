/**
 * Room `upstream`: foreign servers (vLLM, SGLang, llama-server, any OpenAI server) as engines of Baton.
 *
 * Owns the HTTP client to them, the detection of their kind, their dialects, their KV events, which of them are up,
 * and requests that are forwarded to them unchanged (`forward/`).
 * Does not own the worker that hosts such an engine (`host`) or which requests are forwarded.
 * May use: base, request, kv, text, engine, os. For: `cli`, and programs that forward requests to such servers.
 */
export { clearCache } from './client/clear-cache.ts'
export { fetchWhole } from './client/fetch-json.ts'
export { SseReader } from './client/sse-reader.ts'
export { UpstreamClient } from './client/upstream-client.ts'
export type { UpstreamClientOptions } from './client/upstream-client.ts'
export { kvEventPlaces } from './events/kv-event-feed.ts'
export { parseUpstreamUrl } from './client/upstream-url.ts'
export { errorOfResponse, publicMessage } from './dialects/upstream-error.ts'
export { ForwardEngine } from './forward/forward-engine.ts'
export type { ForwardEngineOptions } from './forward/forward-engine.ts'
export { ForwardPlane } from './forward/forward-plane.ts'
export { RemoteTexts } from './remote-text/remote-texts.ts'
export { LearningPlane } from './remote-text/learning-plane.ts'
export type { RemoteText } from './remote-text/text-description.ts'
export { WorkerTexts } from './remote-text/worker-texts.ts'
export { UpstreamEngine } from './upstream-engine.ts'
export type { UpstreamEngineOptions } from './upstream-engine.ts'
export { UPSTREAM_KINDS } from './dialects/dialect-table.ts'
export type { UpstreamKind } from './dialects/dialect-table.ts'
export { detectKind } from './kind/upstream-kind.ts'
export type { FoundKind } from './kind/upstream-kind.ts'
export { UpstreamFleet } from './fleet/upstream-fleet.ts'
export type { UpstreamEvent, UpstreamWorker } from './fleet/upstream-fleet.ts'
export { UpstreamSource } from './fleet/upstream-source.ts'
export { upstreamKey, upstreamsOf } from './fleet/upstream-spec.ts'
export type { UpstreamSpec } from './fleet/upstream-spec.ts'
