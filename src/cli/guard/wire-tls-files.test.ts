import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { WireTlsFiles } from './wire-tls-files.ts'

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url))

it('files that are replaced while the process runs - a usable set is used, any other is reported', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-wire-tls-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const paths = {
    cert: join(folder, 'cert.pem'),
    key: join(folder, 'key.pem'),
    ca: join(folder, 'ca.pem'),
  }
  copyFileSync(fixture('fleet.pem'), paths.cert)
  copyFileSync(fixture('fleet.key'), paths.key)
  copyFileSync(fixture('fleet-ca.pem'), paths.ca)
  const files = WireTlsFiles.open(paths)
  const first = files.cert
  const warnings: string[] = []
  let changes = 0
  files.onChange(() => (changes += 1))
  const end = files.watch({
    info: () => undefined,
    warn: (fields) => warnings.push((fields as { message: string }).message),
  })
  onTestFinished(end)

  copyFileSync(fixture('stranger.pem'), paths.cert)
  await until('a pair that does not match', () => warnings.length === 1)
  expect(warnings[0]).toMatch(/--tls-key: the key does not belong to the certificate of --tls-cert/)
  copyFileSync(fixture('expired.pem'), paths.cert)
  await until('an expired certificate', () => warnings.length === 2)
  expect(warnings[1]).toMatch(/--tls-cert: the certificate expired on /)
  copyFileSync(fixture('fleet.pem'), paths.cert)
  appendFileSync(paths.cert, first.slice(0, first.length / 2))
  await until('a chain that is half written', () => warnings.length === 3)
  expect(warnings[2]).toMatch(/--tls-cert: the file is broken/)
  rmSync(paths.ca)
  await until('a file that is missing', () => warnings.length === 4)
  expect([files.cert, changes]).toEqual([first, 0])

  copyFileSync(fixture('stranger.pem'), paths.cert)
  copyFileSync(fixture('stranger.key'), paths.key)
  copyFileSync(fixture('stranger-ca.pem'), paths.ca)
  await until('the new set', () => files.ca === readFileSync(fixture('stranger-ca.pem'), 'utf8'))
  expect(files.cert).toBe(readFileSync(fixture('stranger.pem'), 'utf8'))
  expect(files.key).toBe(readFileSync(fixture('stranger.key'), 'utf8'))
  // Whoever asks for the same files gets the same set.
  expect(WireTlsFiles.open(paths)).toBe(files)
})
