/** Every recorded response of every engine passes through Baton unchanged, byte for byte. */
import { afterEach, describe, expect, it } from 'vitest'
import { osClock } from '../../src/os/index.ts'
import { fetchWhole, parseUpstreamUrl, UpstreamClient } from '../../src/upstream/index.ts'
import { ENGINES, responseOf, transcriptsOf } from '../upstream/transcripts.ts'
import { ask, engineServer, startGateway } from './gateway-kit.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end.close()
})

/** Strings that must not reach a client: where the recorded engines ran. */
const INSIDE = /srv\/|baton-lab|site-packages|127\.0\.0\.1|\.py/

describe.each(ENGINES)('%s', (engine) => {
  const answered = transcriptsOf(engine).filter(({ status }) => status !== null)

  it(`all ${answered.length} responses - are returned unchanged, errors without internal details`, async () => {
    const server = await engineServer(({ body }) =>
      responseOf(engine, (JSON.parse(body) as { name: string }).name),
    )
    const direct = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
    const gateway = await startGateway([server])
    open.push(server, direct, gateway)
    let same = 0
    for (const { name, status } of answered) {
      const body = JSON.stringify({ model: 'm', name })
      const got = await ask(gateway.port, '/v1/chat/completions', body)
      if (name.startsWith('abort_stream')) {
        expect(got.body.toString(), name).toMatch(/\n\ndata: \{"error":.*\n\ndata: \[DONE\]\n\n$/s)
        continue
      }
      const request = { method: 'POST', path: '/', body, reuse: false }
      const was = await fetchWhole(direct, request, { deadlineMs: 60_000 })
      if (got.body.equals(Buffer.from(was.text))) {
        expect([name, got.status]).toEqual([name, status])
        same += 1
        continue
      }
      expect(status, name).toBeGreaterThanOrEqual(400)
      expect(got.status, name).toBeGreaterThanOrEqual(400)
      expect(got.body.toString(), name).not.toMatch(INSIDE)
    }
    expect(same).toBeGreaterThan(0)
  })
})
