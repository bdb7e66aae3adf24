/**
 * Certificate, key and authority for TLS between the processes of a fleet. All connections of this process share one
 * set, so that a renewal reaches all of them.
 */
import { BatonError } from '../../base/index.ts'
import type { WireTls } from '../../network/index.ts'
import { certificateOf, checkedPair, readPemFile } from './pem-files.ts'
import { RenewedPems } from './renewed-pems.ts'
import type { CertificateLog } from './renewed-pems.ts'
import type { NamedCertificate } from './certificate-ages.ts'

export interface WireTlsPaths {
  readonly cert: string
  readonly key: string
  readonly ca: string
}

export class WireTlsFiles implements WireTls {
  /** By their paths; a few in a process. */
  static readonly #opened = new Map<string, WireTlsFiles>()
  readonly #pems: RenewedPems<{
    readonly cert: string
    readonly key: string
    readonly ca: string
  }>

  private constructor(paths: WireTlsPaths) {
    this.#pems = new RenewedPems({
      what: 'the certificate of the connections between processes',
      files: {
        cert: { flag: '--tls-cert', path: paths.cert },
        key: { flag: '--tls-key', path: paths.key },
        ca: { flag: '--tls-ca', path: paths.ca },
      },
      read: (limits) => readUsable(paths, limits),
    })
  }

  /** Throws `config.invalid` when the files cannot be used. */
  static open(paths: WireTlsPaths): WireTlsFiles {
    const name = JSON.stringify([paths.cert, paths.key, paths.ca])
    const opened = WireTlsFiles.#opened.get(name) ?? new WireTlsFiles(paths)
    WireTlsFiles.#opened.set(name, opened)
    return opened
  }

  get cert(): string {
    return this.#pems.now.cert
  }

  get key(): string {
    return this.#pems.now.key
  }

  get ca(): string {
    return this.#pems.now.ca
  }

  get certificates(): readonly NamedCertificate[] {
    return this.#pems.certificates
  }

  onChange(listener: () => void): () => void {
    return this.#pems.onChange(listener)
  }

  /** Until then nothing is read again. Returns a function that ends the watch. */
  watch(log: CertificateLog): () => void {
    return this.#pems.watch(log)
  }
}

function readUsable(
  paths: WireTlsPaths,
  limits: { readonly silentMs?: number },
): Record<'cert' | 'key' | 'ca', string> {
  const cert = readPemFile('--tls-cert', paths.cert, limits)
  const key = readPemFile('--tls-key', paths.key, limits)
  const ca = readPemFile('--tls-ca', paths.ca, limits)
  checkedPair({ cert, key, ca }, { cert: '--tls-cert', key: '--tls-key' })
  refuseExpired('--tls-cert', cert)
  refuseExpired('--tls-ca', ca)
  return { cert, key, ca }
}

/** Every other process would refuse it, and say so in its own log only. */
function refuseExpired(flag: string, pem: string): void {
  const { validTo } = certificateOf(flag, pem)
  if (Date.parse(validTo) > Date.now()) return
  const text = `${flag}: the certificate expired on ${validTo}: renew it, or correct the clock of this machine`
  throw new BatonError('config.invalid', text)
}
