/**
 * Security of the connections between the processes of a fleet: a shared secret, TLS, both, or neither on a
 * single machine.
 */
import { BatonError } from '../../base/index.ts'
import { isLoopback } from '../../os/index.ts'
import type { WireTls } from '../../network/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { WireTlsFiles } from './wire-tls-files.ts'

export interface WireSecurity {
  readonly secret?: string
  readonly tls?: WireTls
}

/** Throws `config.invalid` that names the option that is missing or whose file cannot be read. */
export function wireSecurity(
  config: Pick<ServeConfig, 'wireSecret' | 'tlsCert' | 'tlsKey' | 'tlsCa'>,
): WireSecurity & { readonly tls?: WireTlsFiles } {
  const { wireSecret, tlsCert, tlsKey, tlsCa } = config
  const secret = wireSecret === null ? {} : { secret: wireSecret }
  if (tlsCert === null && tlsKey === null && tlsCa === null) return secret
  const tls = WireTlsFiles.open({
    cert: pathOf('--tls-cert', tlsCert),
    key: pathOf('--tls-key', tlsKey),
    ca: pathOf('--tls-ca', tlsCa),
  })
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

function pathOf(flag: string, path: string | null): string {
  if (path !== null) return path
  const text = `${flag} is missing: TLS between processes needs --tls-cert, --tls-key and --tls-ca`
  throw new BatonError('config.invalid', text)
}
