/** A simple handler without routes in the form that `HttpServer` expects: the whole body is read first. */
import { BatonError } from '../../base/index.ts'
import type { HttpHead, HttpReply, HttpRequest, OpenRequest } from './http-exchange.ts'

interface PlainRequestsOptions {
  readonly bodyBytesMax: number
  /** Errors that it throws become replies. */
  readonly answer: (request: HttpRequest) => Promise<HttpReply>
  readonly refuse: (error: BatonError) => HttpReply
  readonly onFault: (error: unknown) => void
}

export function plainRequests(options: PlainRequestsOptions): (head: HttpHead) => OpenRequest {
  const { answer, bodyBytesMax, refuse, onFault } = options
  return (head) => ({
    bodyBytesMax: head.method === 'GET' || head.method === 'HEAD' ? 0 : bodyBytesMax,
    refuse,
    answer: async (body) => {
      try {
        return await answer({ ...head, body })
      } catch (thrown) {
        const error = BatonError.from(thrown)
        if (error.code === 'runtime.internal') onFault(thrown)
        return refuse(error)
      }
    },
  })
}
