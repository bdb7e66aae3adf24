import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { aFleet, aModel } from '../../../test/fixtures/fleet-view.ts'
import { runBaton } from '../../../test/running-server.ts'

async function serverOf(answer: (path: string, reply: ServerResponse) => void): Promise<string> {
  const server = createServer((request, reply) => answer(request.url ?? '', reply))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const BROKEN_MODEL = { ...aFleet(), models: [{ ...aModel(), decode: null }] }

/** Sends without end, one piece per turn of the event loop, so that a disconnect is noticed. */
function endless(_: string, reply: ServerResponse): void {
  const piece = Buffer.alloc(1024 * 1024, 'x')
  const more = (): void => {
    if (!reply.destroyed && reply.write(piece)) setImmediate(more)
  }
  reply.on('drain', more)
  more()
}

describe('top and doctor with an address that is not a Baton server', () => {
  it.each<[string, (path: string, reply: ServerResponse) => void]>([
    ['nothing at all in JSON', (_, reply) => reply.end('null')],
    ['an object of another kind', (_, reply) => reply.end('{"models":5,"sums":null}')],
    ['a fleet with a hole', (_, reply) => reply.end(JSON.stringify(BROKEN_MODEL))],
    ['a page', (_, reply) => reply.end('<html>')],
    ['a refusal in another form', (_, reply) => reply.writeHead(500).end('[null]')],
  ])('%s - is reported in one sentence without a stack trace', async (_, answer) => {
    const url = await serverOf(answer)
    const top = await runBaton(['top', '--once', '--url', url])
    expect(top.exitCode).not.toBe(0)
    expect(top.printed).toMatch(/^baton: [^\n]+\n$/)
    const doctor = await runBaton(['doctor', '--url', url])
    expect(doctor.exitCode).toBe(1)
    expect(doctor.printed).toMatch(/^FAIL +(fleet|server) +\S.*\n +→ \S/m)
    expect(doctor.printed).not.toMatch(/^ +at /m)
  })

  it('an answer without an end - is reported in one sentence', async () => {
    const { exitCode, printed } = await runBaton([
      'top',
      '--once',
      '--url',
      await serverOf(endless),
    ])
    expect(exitCode).not.toBe(0)
    expect(printed).toMatch(/^baton: [^\n]+ is not a Baton server[^\n]*\n$/)
  })
})

describe('doctor with a server that accepts connections and never answers', () => {
  it('reports it once and says how long it waited', async () => {
    const url = await serverOf(() => undefined)
    const { exitCode, printed } = await runBaton(['doctor', '--url', url])
    expect(exitCode).toBe(1)
    expect(printed.match(/^FAIL .*\n.*/gm)).toEqual([
      expect.stringMatching(/^FAIL +server +no answer from .*\n +→ .* did not answer within 5 s$/),
    ])
  })

  it('answers in part - the rest is reported all the same', async () => {
    const url = await serverOf((path, reply) => {
      if (path === '/debug/fleet') reply.end(JSON.stringify(aFleet()))
      else if (path === '/live') reply.end('ok')
    })
    const { printed } = await runBaton(['doctor', '--url', url])
    expect(printed).toMatch(/^FAIL +server +no answer from .*\n +→ .* within 5 s$/m)
    expect(printed).toMatch(/^ok +discovery/m)
  })
})

describe('disks', () => {
  it('every folder that the fleet writes to - each disk is reported once', async () => {
    const { localChecks } = await import('./local-checks.ts')
    const places = (await localChecks(['/proc', '/tmp', '/nowhere'])).filter(
      ({ topic }) => topic === 'disk',
    )
    expect(new Set(places.map(({ text }) => text)).size).toBe(places.length)
    expect(places.length).toBeGreaterThan(0)
  })
})

it('doctor and top with a NATS server that is away - say so and end', async () => {
  for (const command of [['doctor'], ['top', '--once']]) {
    const { printed } = await runBaton([...command, '--discovery', 'nats://127.0.0.1:1'])
    expect(printed).toContain('unreachable')
  }
})
