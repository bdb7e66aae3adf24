import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runBaton, startServer } from './running-server.ts'

const fixture = (name: string): string =>
  fileURLToPath(new URL(`fixtures/tls/${name}`, import.meta.url))

const TLS = [
  '--tls-cert',
  fixture('fleet.pem'),
  '--tls-key',
  fixture('fleet.key'),
  '--tls-ca',
  fixture('fleet-ca.pem'),
]

describe('baton serve - authenticated connections', () => {
  it('shared secret and TLS - frontend and workers connect and hand over a prompt', async () => {
    const server = await startServer(['--engine', 'sim', ...TLS], {
      BATON_WIRE_SECRET: 'the fleet',
    })
    onTestFinished(async () => {
      await server.stop()
    })
    const reply = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'storyteller',
        max_tokens: 5,
        messages: [{ role: 'user', content: 'Hello' }],
      }),
    })
    expect([reply.status, await reply.json()]).toMatchObject([
      200,
      { usage: { completion_tokens: 5 } },
    ])
  })

  it('incomplete TLS options, or an invalid file - the error names the option', async () => {
    const half = await runBaton(['serve', '--port', '0', ...TLS.slice(0, 4)])
    expect(half.printed).toMatch(/--tls-ca is missing/)
    const wrong = [...TLS.slice(0, 5), fixture('README.md')]
    const file = await runBaton(['serve', '--port', '0', ...wrong])
    expect(file.printed).toMatch(/--tls-ca: .* is invalid: expected a PEM file/)
    expect([half.exitCode, file.exitCode]).not.toContain(0)
  })
})
