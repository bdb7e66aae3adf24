/** Room `frontend`: an HTTP request as a value in, a reply or a stream of text out. */
export { Frontend } from './frontend.ts'
export type {
  Endpoint,
  FrontendObserver,
  Migration,
  RequestEnd,
  RequestFacts,
  RoutedLeg,
} from './frontend-observer.ts'
export { DEFAULT_LIMITS } from './frontend-options.ts'
export type { EncodeOffLoop, FrontendLimits, FrontendOptions } from './frontend-options.ts'
export type { HttpReply, HttpRequest, HttpStream, StreamWriter } from './http-exchange.ts'
export { createMigratingService } from './migration.ts'
export type { MigrationOptions } from './migration.ts'
export { ModelRegistry } from './model-registry.ts'
export type { ModelRegistryOptions } from './model-registry.ts'
