/** Room `frontend`: an HTTP request as a value in, a reply or a stream of text out. */
export { Frontend } from './frontend.ts'
export type { FrontendObserver, Migration, RequestEnd, RequestFacts } from './frontend-observer.ts'
export type { FrontendLimits, FrontendOptions } from './frontend-options.ts'
export type { HttpReply, HttpRequest, HttpStream, StreamWriter } from './http-exchange.ts'
