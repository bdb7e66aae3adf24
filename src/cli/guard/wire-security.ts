/**
 * Security of the connections between the processes of a fleet: a shared secret, TLS, both, or neither on a
 * single machine.
 */
import { BatonError } from '../../base/index.ts'
import { isLoopback } from '../../os/index.ts'
import type { WireTls } from '../../network/index.ts'
import { certificateOf, checkedPair, readPemFile } from './pem-files.ts'
import type { ServeConfig } from '../options/serve-config.ts'

export interface WireSecurity {
  readonly secret?: string
  readonly tls?: WireTls
}

/** Throws `config.invalid` that names the option that is missing or whose file cannot be read. */
export function wireSecurity(
  config: Pick<ServeConfig, 'wireSecret' | 'tlsCert' | 'tlsKey' | 'tlsCa'>,
): WireSecurity {
  const { wireSecret, tlsCert, tlsKey, tlsCa } = config
  const secret = wireSecret === null ? {} : { secret: wireSecret }
  if (tlsCert === null && tlsKey === null && tlsCa === null) return secret
  const tls = {
    cert: pemOf('--tls-cert', tlsCert),
    key: pemOf('--tls-key', tlsKey),
    ca: pemOf('--tls-ca', tlsCa),
  }
  checkedPair(tls, { cert: '--tls-cert', key: '--tls-key' })
  refuseExpired('--tls-cert', tls.cert)
  refuseExpired('--tls-ca', tls.ca)
  return { ...secret, tls }
}

/**
 * The warning when other machines can reach a port of the fleet and neither secret nor TLS protects it; null
 * otherwise.
 */
export function openWireWarning(address: string, { secret, tls }: WireSecurity): string | null {
  if (isLoopback(address) || secret !== undefined || tls !== undefined) return null
  return (
    `baton: warning: ${address} can be reached from other machines and is not protected: whoever connects can send ` +
    'requests and read KV. Set BATON_WIRE_SECRET, or --tls-cert, --tls-key and --tls-ca.'
  )
}

/** Every other process would refuse it, and say so in its own log only. */
function refuseExpired(flag: string, pem: string): void {
  const { validTo } = certificateOf(flag, pem)
  if (Date.parse(validTo) > Date.now()) return
  const text = `${flag}: the certificate expired on ${validTo}: renew it, or correct the clock of this machine`
  throw new BatonError('config.invalid', text)
}

function pemOf(flag: string, path: string | null): string {
  if (path === null) {
    const text = `${flag} is missing: TLS between processes needs --tls-cert, --tls-key and --tls-ca`
    throw new BatonError('config.invalid', text)
  }
  return readPemFile(flag, path)
}
