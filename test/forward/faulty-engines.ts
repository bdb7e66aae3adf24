/** Engines whose answers a test defines, and a gateway in front of them; all are closed after the test. */
import { onTestFinished } from 'vitest'
import { until } from '../until.ts'
import { jsonResponse } from '../upstream/transcripts.ts'
import type { SeenRequest } from '../upstream/transcripts.ts'
import { engineServer, startGateway } from './gateway-kit.ts'
import type { ForwardEngineServer, Gateway } from './gateway-kit.ts'

/** Closed in reverse order. */
export function closeAfterwards(end: { close(): unknown }): void {
  onTestFinished(async () => void (await end.close()))
}

export type Answer = (request: SeenRequest) => Buffer | string | null | undefined

export async function engine(answer: Answer): Promise<ForwardEngineServer> {
  const server = await engineServer(answer)
  closeAfterwards(server)
  return server
}

export async function gatewayOf(
  engines: readonly { url: string }[],
  flags: Readonly<Record<string, unknown>> = {},
): Promise<Gateway> {
  const gateway = await startGateway(engines, flags)
  closeAfterwards(gateway)
  return gateway
}

export const WHOLE = jsonResponse(200, {
  id: 'x',
  usage: { prompt_tokens: 7, completion_tokens: 3 },
})
export const STREAM_HEAD =
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
export const chunk = (text: string): string =>
  `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
export const CHAT = '/v1/chat/completions'
export const ASK = '{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}'

export const metricsOf = async (gateway: Gateway): Promise<string> =>
  await (await fetch(`${gateway.url}/metrics`)).text()

export const BOOKED =
  /^baton_frontend_(?:inflight_requests|worker_active_decode_blocks|worker_active_prefill_tokens)\{.*\} (?!0$)/m

export const idle = (gateway: Gateway): Promise<void> =>
  until('nothing is booked any more', async () => !BOOKED.test(await metricsOf(gateway)))
