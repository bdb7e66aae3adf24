/** Room `frontend`: an HTTP request as a value in, a reply or a stream of text out. */
export type { HttpReply, HttpRequest, HttpStream, StreamWriter } from './http-exchange.ts'
