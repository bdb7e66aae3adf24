/** Certificates for NATS that are renewed in their files while processes are connected. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseDiscovery } from '../../src/discovery/kinds/discovery-kinds.ts'
import type { NatsAddress } from '../../src/discovery/nats/nats-address.ts'
import { NatsDiscovery } from '../../src/discovery/nats/nats-discovery.ts'
import { DiscoveryRecord, sampleCard } from '../../src/testing/discovery-kit.ts'
import { NatsServer, NATS_VERSION } from './nats-server.ts'

/** A folder with `<name>.pem` and `<name>.key` for each name, each certificate signed by itself. */
function certificates(names: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-nats-tls-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const words =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -addext subjectAltName=DNS:localhost -days 2'
  for (const name of names) {
    const files = ['-keyout', join(folder, `${name}.key`), '-out', join(folder, `${name}.pem`)]
    spawnSync('openssl', [...words.split(' '), '-subj', `/CN=${name}`, ...files])
  }
  return folder
}

/** Requires certificates that `client` has signed. */
const settings = (folder: string, server: string, client: string): string =>
  `tls { cert_file: "${folder}/${server}.pem", key_file: "${folder}/${server}.key", ca_file: "${folder}/${client}.pem", verify: true }`

describe.skipIf(NATS_VERSION === null)('NATS with certificates', () => {
  it('those of both sides are renewed - the next connection uses them; a file that is missing changes nothing', async () => {
    const folder = certificates(['server', 'server-new', 'client', 'client-new'])
    const [cert, key, ca] = ['cert', 'key', 'ca'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ]
    const use = (server: string, client: string): void => {
      copyFileSync(join(folder, `${client}.pem`), cert)
      copyFileSync(join(folder, `${client}.key`), key)
      copyFileSync(join(folder, `${server}.pem`), ca)
    }
    use('server', 'client')
    const server = await NatsServer.start(settings(folder, 'server', 'client'))
    onTestFinished(() => server.close())
    const url = `nats://localhost:${server.port}?tls_ca=${ca}&tls_cert=${cert}&tls_key=${key}`
    const discovery = new NatsDiscovery({ address: parseDiscovery(url) as NatsAddress, pollMs: 50 })
    onTestFinished(() => discovery.close())
    const record = new DiscoveryRecord()
    await discovery.watch(record)
    const registration = await discovery.register(sampleCard(1))
    await record.until('joined 1')

    // They are being replaced while the server is back with what it had.
    for (const path of [cert, key, ca]) rmSync(path)
    await server.kill()
    await record.until('away')
    await server.restart()
    await record.until('back')

    use('server-new', 'client-new')
    record.told.length = 0
    await server.kill()
    await record.until('away')
    server.configure(settings(folder, 'server-new', 'client-new'))
    await server.restart()
    await record.until('back')
    await registration.update(sampleCard(1, { pid: 7 }))
    await record.until('joined 1')
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })
})
