/** The certificates of test/fixtures/tls. */
import { readFileSync } from 'node:fs'

/** The text of a file. */
export const pem = (name: string): string =>
  readFileSync(new URL(`fixtures/tls/${name}`, import.meta.url), 'utf8')

/** Certificate, key and authority of `fleet`, or of `stranger`, whose authority is another one. */
export const tlsOf = (who: 'fleet' | 'stranger') => ({
  cert: pem(`${who}.pem`),
  key: pem(`${who}.key`),
  ca: pem(`${who}-ca.pem`),
})
