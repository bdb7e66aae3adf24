/** Every recorded response of every engine, parsed by the code that reads live ones. */
import { afterEach, describe, expect, it } from 'vitest'
import { osClock } from '../../src/os/index.ts'
import {
  errorOfResponse,
  fetchWhole,
  parseUpstreamUrl,
  publicMessage,
  SseReader,
  UpstreamClient,
} from '../../src/upstream/index.ts'
import { ENGINES, fakeServer, responseOf, transcriptsOf } from './transcripts.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0)) await end.close()
})

/** Strings that must not reach a client: where the recorded engines ran. */
const INSIDE = /srv\/|baton-lab|site-packages|127\.0\.0\.1|\.py/

describe.each(ENGINES)('%s', (engine) => {
  const answered = transcriptsOf(engine).filter(({ status }) => status !== null)

  it(`all ${answered.length} responses - are parsed completely, and errors have no internal details`, async () => {
    const server = await fakeServer(({ path }) => responseOf(engine, path.slice(1)))
    const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
    open.push(client, server)
    for (const { name, status } of answered) {
      const response = await fetchWhole(
        client,
        { method: 'GET', path: `/${name}`, reuse: false },
        { deadlineMs: 60_000 },
      ).catch((error: Error) => error)
      // The client of the recording disconnected during the stream.
      if (name.startsWith('abort_stream')) continue
      if (response instanceof Error) throw new Error(`${name}: ${response.message}`)
      expect([name, response.status]).toEqual([name, status])
      const type = response.headers.get('content-type') ?? ''
      if (type.includes('event-stream')) expect(eventsOf(response.text), name).not.toEqual([])
      if (response.status < 400) {
        if (type.includes('json') && response.text !== '') JSON.parse(response.text)
        continue
      }
      const error = errorOfResponse(response.status, response.text)
      expect(error.message, name).not.toMatch(INSIDE)
      expect(JSON.stringify(error.toValue()), name).not.toMatch(INSIDE)
    }
  })
})

function eventsOf(text: string): readonly unknown[] {
  const events: unknown[] = []
  const reader = new SseReader((data) => events.push(data === '[DONE]' ? data : JSON.parse(data)))
  reader.push(Buffer.from(text))
  reader.end()
  return events
}

describe('publicMessage', () => {
  it('the limit in refusals of llama-server and vLLM - is shown', () => {
    const text = responseOf('llama-server', 'err_context').toString()
    const { error } = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as {
      error: { message: string }
    }
    expect(publicMessage(error.message)).toContain('4096')
  })
})
