/**
 * Certificate and key of the HTTP port, from files that are read again when one of them changes.
 */
import type { Logger } from 'pino'
import { BatonError } from '../../base/index.ts'
import type { HttpTls } from '../../network/index.ts'
import { watchContent } from '../../os/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { checkedPair, readPemFile } from './pem-files.ts'

interface PemPair extends HttpTls {
  readonly cert: string
  readonly key: string
}

export class HttpTlsFiles {
  /** The pair as it was read at the start. */
  readonly tls: PemPair
  readonly #paths: readonly [cert: string, key: string]
  #watches: readonly (() => void)[] = []

  /** Throws `config.invalid` when the pair cannot be used. */
  constructor(paths: readonly [cert: string, key: string]) {
    this.#paths = paths
    this.tls = readPair(paths)
  }

  /** Null: plain HTTP. Throws `config.invalid` when one of the two files is missing. */
  static open({ httpTlsCert, httpTlsKey }: ServeConfig): HttpTlsFiles | null {
    if (httpTlsCert === null && httpTlsKey === null) return null
    if (httpTlsCert !== null && httpTlsKey !== null) {
      return new HttpTlsFiles([httpTlsCert, httpTlsKey])
    }
    const missing = httpTlsCert === null ? '--http-tls-cert' : '--http-tls-key'
    throw new BatonError('config.invalid', `${missing} is missing: HTTPS needs both files`)
  }

  /**
   * Certificate and key that do not match, for example while only one file was replaced, are reported and the
   * previous pair stays in use.
   */
  watch(onChange: (tls: HttpTls) => void, logger: Logger): void {
    const known = [this.tls.cert, this.tls.key] as const
    this.#watches = this.#paths.map((path, i) =>
      watchContent(path, known[i] ?? null, () => {
        try {
          // Waiting for a pipe would stop all streams.
          onChange(readPair(this.#paths, { silentMs: 0 }))
          logger.info({ path }, 'the certificate of the HTTP port was reloaded')
        } catch (error) {
          const { message } = BatonError.from(error)
          logger.warn(
            { path, message },
            'the certificate of the HTTP port cannot be used: the previous one stays in use',
          )
        }
      }),
    )
  }

  close(): void {
    for (const end of this.#watches) end()
  }
}

function readPair(
  [certPath, keyPath]: readonly [string, string],
  limits: { readonly silentMs?: number } = {},
): PemPair {
  const cert = readPemFile('--http-tls-cert', certPath, limits)
  const key = readPemFile('--http-tls-key', keyPath, limits)
  checkedPair({ cert, key }, { cert: '--http-tls-cert', key: '--http-tls-key' })
  return { cert, key }
}
