/**
 * Certificate and key of the HTTP port.
 */
import { BatonError } from '../../base/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { checkedPair, readPemFile } from './pem-files.ts'
import { RenewedPems } from './renewed-pems.ts'

/**
 * Null: plain HTTP. Throws `config.invalid` when one of the two files is missing, or when the pair cannot be used.
 */
export function openHttpTls({
  httpTlsCert,
  httpTlsKey,
}: Pick<ServeConfig, 'httpTlsCert' | 'httpTlsKey'>): RenewedPems<{
  readonly cert: string
  readonly key: string
}> | null {
  if (httpTlsCert === null && httpTlsKey === null) return null
  if (httpTlsCert === null || httpTlsKey === null) {
    const missing = httpTlsCert === null ? '--http-tls-cert' : '--http-tls-key'
    throw new BatonError('config.invalid', `${missing} is missing: HTTPS needs both files`)
  }
  return new RenewedPems({
    what: 'the certificate of the HTTP port',
    files: {
      cert: { flag: '--http-tls-cert', path: httpTlsCert },
      key: { flag: '--http-tls-key', path: httpTlsKey },
    },
    read: (limits) => {
      const cert = readPemFile('--http-tls-cert', httpTlsCert, limits)
      const key = readPemFile('--http-tls-key', httpTlsKey, limits)
      checkedPair({ cert, key }, { cert: '--http-tls-cert', key: '--http-tls-key' })
      return { cert, key }
    },
  })
}
