/**
 * A real HTTPS server whose authority is given in NODE_EXTRA_CA_CERTS. Node reads it at the start, so the fetcher
 * runs in a process of its own.
 */
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const folder = mkdtempSync(join(tmpdir(), 'baton-media-tls-'))
const cert = join(folder, 'cert.pem')
const key = join(folder, 'key.pem')
const PICTURE = Buffer.from('a picture, as far as a fetcher knows')

const FETCHER = pathToFileURL(join(import.meta.dirname, 'media-fetcher.ts')).href
/** 127.0.0.1 counts as public. */
const program = (url: string): string => `
  import { createMediaFetcher } from ${JSON.stringify(FETCHER)}
  const fetcher = createMediaFetcher({
    hosts: [${JSON.stringify(new URL(url).host)}], isPublic: (address) => address === '127.0.0.1', resolve: async () => ['127.0.0.1'],
  })
  const limits = { bytesMax: 100, signal: new AbortController().signal }
  const told = await fetcher(${JSON.stringify(url)}, limits).then(
    ({ base64 }) => ({ base64 }),
    ({ code, message, cause }) => ({ code, message, cause: cause?.code }),
  )
  console.log(JSON.stringify(told))
`

function fetchInProcess(url: string, authority: string | null): Promise<unknown> {
  const env = { ...process.env, ...(authority === null ? {} : { NODE_EXTRA_CA_CERTS: authority }) }
  const words = ['--import', 'tsx', '--input-type=module', '--eval', program(url)]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, words, { env }, (error, printed) => {
      if (error === null) resolve(JSON.parse(printed))
      else reject(error)
    })
  })
}

describe('media over https', () => {
  const names: string[] = []
  let server: ReturnType<typeof createServer>
  beforeAll(async () => {
    const words =
      'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=media -addext subjectAltName=DNS:media.example -days 2'
    const made = spawnSync('openssl', [...words.split(' '), '-keyout', key, '-out', cert])
    if (made.status !== 0) throw new Error(`openssl: ${String(made.stderr)}`)
    server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (ask, answer) => {
      names.push(`${ask.headers.host} ${ask.url}`)
      answer.end(PICTURE)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const url = (host: string): string =>
    `https://${host}:${(server.address() as AddressInfo).port}/a.png`

  it('an authority that the process trusts - the bytes', async () => {
    const told = await fetchInProcess(url('media.example'), cert)
    expect(told).toEqual({ base64: PICTURE.toString('base64') })
    expect(names).toEqual([new URL(url('media.example')).host + ' /a.png'])
  })

  it.each([
    ['an authority that nobody knows', 'media.example', false, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    ['a certificate for another name', 'other.example', true, 'ERR_TLS_CERT_ALTNAME_INVALID'],
  ])(
    '%s - cannot be reached for the client; the log has the reason',
    async (_what, host, isKnown, cause) => {
      const asked = names.length
      expect(await fetchInProcess(url(host), isKnown ? cert : null)).toEqual({
        code: 'request.invalid_argument',
        message: expect.stringMatching(/could not be reached$/),
        cause,
      })
      expect(names).toHaveLength(asked)
    },
  )
})
