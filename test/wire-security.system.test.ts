import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runBaton, startBaton, startServer } from './running-server.ts'
import { until } from './until.ts'

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

/** A self-signed certificate that was issued a hundred days ago and is valid for so many more. */
function issueCertificate(
  folder: string,
  { cert, key, days }: { cert: string; key: string; days: number },
): void {
  const run = (words: string, ...more: string[]): void => {
    execFileSync('openssl', [...words.split(' '), ...more], { stdio: 'ignore', cwd: folder })
  }
  const date = (inDays: number): string =>
    `${new Date(Date.now() + inDays * 86_400_000).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`
  writeFileSync(join(folder, 'issued.txt'), '')
  writeFileSync(
    join(folder, 'ca.conf'),
    `[ca]
default_ca = own
[own]
database = issued.txt
new_certs_dir = .
serial = serial.txt
default_md = sha256
policy = any
x509_extensions = ext
unique_subject = no
[any]
commonName = supplied
[ext]
basicConstraints = critical,CA:TRUE
`,
  )
  const curve = '-newkey ec -pkeyopt ec_paramgen_curve:P-256'
  run(`req -new ${curve} -nodes -subj /CN=fleet -out asked.pem -keyout`, key)
  const term = `-startdate ${date(-100)} -enddate ${date(days)}`
  run(`ca -batch -selfsign -notext -create_serial -config ca.conf -in asked.pem ${term}`, '-keyfile', key, '-out', cert) // prettier-ignore
}

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

  it.each([
    ['a worker without its engine', ['worker', '--engine', './no-engine.js']],
    ['a role of boostr without its module', ['boostr', 'decode', '--rank', '2', '--accept', '0', '--module', './no-model.mjs']], // prettier-ignore
  ])('%s - the process ends with an error, also if it has certificates', async (_, command) => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-no-start-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const discovery = command[0] === 'worker' ? ['--discovery-dir', folder] : []
    const { exitCode, printed } = await runBaton([...command, ...discovery, ...TLS])
    expect(printed).toMatch(/the file does not exist/)
    expect(exitCode).toBe(2)
  })

  it('a certificate that expires soon is renewed - it is announced, and links made later use the new one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-renewed-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
    const use = (days: number): void => {
      issueCertificate(folder, { cert: `${cert}.new`, key: `${key}.new`, days })
      for (const path of [key, cert]) renameSync(`${path}.new`, path)
    }
    use(5)
    const tls = ['--tls-cert', cert, '--tls-key', key, '--tls-ca', cert]
    const server = await startServer(['--engine', 'sim', ...tls])
    onTestFinished(async () => void (await server.stop()))
    const warnings = async (): Promise<readonly string[]> => {
      const reply = await fetch(`${server.url}/health`)
      return ((await reply.json()) as { warnings: string[] }).warnings
    }
    expect(await warnings()).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^the certificate of --tls-cert \(.*\) expires in 4 days, on /),
        expect.stringMatching(/^the certificate of --tls-ca /),
      ]),
    )
    expect(server.printed()).toMatch(/"level":40.*the certificate of --tls-cert .* expires in 4/)
    use(100)
    await until('the warnings are gone', async () => (await warnings()).length === 0)
    // The worker that replaces it has the new certificate from the start.
    const [pid] = server.workerPids
    process.kill(pid!, 'SIGKILL')
    await until('it is replaced', () => server.printed().includes('was started again'))
    await until('it is connected', async () => (await warnings()).length === 0)
  })

  it('a frontend with a foreign certificate gets that of the fleet - it connects without a restart', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-renewed-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const at = (name: string): string => join(folder, name)
    const use = (name: 'fleet' | 'stranger', parts = ['.pem', '.key', '-ca.pem']): void => {
      for (const part of parts) copyFileSync(fixture(`${name}${part}`), at(`own${part}`))
    }
    use('stranger')
    const fleet = ['--discovery-dir', at('fleet')]
    const own = [
      '--tls-cert',
      at('own.pem'),
      '--tls-key',
      at('own.key'),
      '--tls-ca',
      at('own-ca.pem'),
    ]
    const worker = await startBaton(['worker', '--engine', 'sim', ...fleet, ...TLS], /ready/)
    onTestFinished(async () => {
      worker.process.kill()
      await worker.ended
    })
    const frontend = await startBaton(['frontend', '--port', '0', ...fleet, ...own], /http:/)
    onTestFinished(async () => {
      frontend.process.kill()
      await frontend.ended
    })
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(frontend.printed()) ?? []
    const ready = async (): Promise<number> => (await fetch(`${url}/ready`)).status
    await until('the refusal', () => frontend.printed().includes('TLS handshake failed'))
    expect(await ready()).toBe(503)
    use('fleet', ['.pem'])
    await until('the fault', () => frontend.printed().includes('the key does not belong'))
    use('fleet')
    await until('the worker is connected', async () => (await ready()) === 200)
  })
})
