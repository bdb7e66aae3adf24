/**
 * Requests a small answer as a whole: for questions about a server, not for tokens.
 */
import { BatonError } from '../../base/index.ts'
import type { UpstreamRequest } from './upstream-call.ts'
import type { UpstreamClient } from './upstream-client.ts'

export interface WholeResponse {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly text: string
}

const BODY_BYTES_MAX = 64 * 2 ** 20

export function fetchWhole(
  client: UpstreamClient,
  request: UpstreamRequest,
  options: { readonly deadlineMs: number; readonly signal?: AbortSignal },
): Promise<WholeResponse> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let bytes = 0
    let status = 0
    let headers: ReadonlyMap<string, string> = new Map()
    const { deadlineMs, signal } = options
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      settle()
    }
    const cut = (error: BatonError): void => {
      call.abort()
      end(() => reject(error))
    }
    const onAbort = (): void =>
      cut(new BatonError('request.cancelled', 'the request was cancelled'))
    const timer = setTimeout(
      () =>
        cut(
          new BatonError(
            'backend.response_timeout',
            `the upstream did not answer ${request.path} within ${deadlineMs} ms`,
            { data: { stage: 'upstream' } },
          ),
        ),
      deadlineMs,
    )
    const call = client.send(request, {
      onHead: (head) => {
        status = head.status
        headers = head.headers
      },
      onBody: (view) => {
        bytes += view.length
        if (bytes > BODY_BYTES_MAX) {
          cut(new BatonError('transport.protocol', `the answer to ${request.path} is too long`))
        } else pieces.push(Buffer.from(view))
      },
      onEnd: () =>
        end(() => resolve({ status, headers, text: Buffer.concat(pieces).toString('utf8') })),
      onError: (error) => end(() => reject(error)),
    })
    if (signal?.aborted === true) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** Null for text that is not JSON, because a foreign server is not trusted. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

/** Asks the server; null unless it answers 200 with JSON. Rejects when it cannot be reached. */
export async function askJson(
  client: UpstreamClient,
  path: string,
  options: { readonly deadlineMs: number; readonly body?: unknown; readonly signal?: AbortSignal },
): Promise<unknown> {
  const { body, ...rest } = options
  const { status, text } = await fetchWhole(
    client,
    body === undefined
      ? { method: 'GET', path }
      : {
          method: 'POST',
          path,
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify(body),
        },
    rest,
  )
  return status === 200 ? jsonOf(text) : null
}
