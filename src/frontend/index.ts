/**
 * Room `frontend`: handles HTTP requests as values, without sockets.
 *
 * Owns an HTTP request as a value in and a reply or a stream of text out: endpoints, prompt, models, generation
 * with migration, replies.
 * May use: base, request, text, api, router. For: network, which has the socket, and programs that embed Baton.
 */
export { Frontend } from './frontend.ts'
export type { BatchFolder, BatchOptions, OwnFile } from './batches/batch-folder.ts'
export type { FleetNews, FleetNewsObserver } from './models/fleet-news.ts'
export type {
  Endpoint,
  FrontendEvent,
  FrontendEventOf,
  FrontendObserver,
  Migration,
  RequestEnd,
  RequestFacts,
} from './generation/frontend-event.ts'
export type { FrontendLimits, FrontendOptions } from './generation/frontend-options.ts'
export type { FleetNote } from './models/fleet-notes.ts'
export type { FleetView, ModelView, PoolView, WorkerView } from './console/fleet-view.ts'
export { workerAddress, workerSums } from './console/worker-sums.ts'
export type { LoggedRequest } from './console/request-log.ts'
export { adminNewsOf, learnAdminNews } from './models/admin-news.ts'
export type { AdminNews } from './models/admin-news.ts'
export type { ModelRegistry } from './models/model-registry.ts'
export { isPassedThrough } from './models/passed-through.ts'
export { parseKeyUseNews } from './access/key-limits.ts'
export type { ApiKey } from './access/api-key.ts'
export { authentication } from './http/authentication.ts'
export { cors } from './http/cors.ts'
export { allowedOrigins, isDoneByForeignPage, namesThisMachine } from './http/foreign-page.ts'
export type { HttpCall } from './http/http-call.ts'
export type {
  BodyTaker,
  HttpHead,
  HttpReply,
  HttpRequest,
  HttpStream,
  OpenRequest,
  StreamWriter,
  WriterFlow,
} from './http/http-exchange.ts'
export type { FetchedMedia, FetchMedia, MediaOptions } from './media/media-options.ts'
export type { Middleware } from './http/middleware.ts'
export { MemoryStateStore } from './state/state-store.ts'
export type { StateStore } from './state/state-store.ts'
export { plainRequests } from './http/plain-requests.ts'
export { createMigratingService } from './generation/migration.ts'
