/**
 * The headers of a client that are sent on to an engine. The client's credentials are for Baton and are not.
 */
const FORWARDED: readonly (readonly [name: string, written: string])[] = [
  ['content-type', 'Content-Type'],
  ['accept', 'Accept'],
  ['user-agent', 'User-Agent'],
  ['anthropic-version', 'anthropic-version'],
  ['anthropic-beta', 'anthropic-beta'],
  ['openai-beta', 'OpenAI-Beta'],
  ['tracestate', 'tracestate'],
  ['x-session-id', 'X-Session-ID'],
]

export function forwardHeaders(
  headers: Readonly<Record<string, string>>,
  call: { readonly requestId: string; readonly traceparent: string | undefined },
): Record<string, string> {
  const forwarded: Record<string, string> = { 'X-Request-Id': call.requestId }
  for (const [name, written] of FORWARDED) {
    const value = headers[name]
    if (value !== undefined) forwarded[written] = value
  }
  if (call.traceparent !== undefined) forwarded['traceparent'] = call.traceparent
  return forwarded
}
