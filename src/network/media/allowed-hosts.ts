/**
 * Hosts from which media may be fetched, as the operator lists them: `images.example.com`, `*.example.com` (every
 * host below it, not itself), `host:8443`, or `*`.
 */
import { BatonError } from '../../base/index.ts'

interface AllowedHost {
  /** Null: any. */
  readonly name: string | null
  readonly isBelow: boolean
  /** Absent: the default port of the scheme. */
  readonly port: string
}

const WRITTEN = /^(\*|(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?$/

export class AllowedHosts {
  readonly #hosts: readonly AllowedHost[]

  /** Throws `config.invalid`. */
  constructor(list: readonly string[]) {
    this.#hosts = list.map(parsed)
  }

  allows({ hostname, port }: URL): boolean {
    // A trailing dot means the same host.
    const host = hostname.toLowerCase().replace(/\.$/, '')
    return this.#hosts.some(
      (allowed) =>
        allowed.port === port &&
        (allowed.name === null ||
          (allowed.isBelow ? host.endsWith(`.${allowed.name}`) : host === allowed.name)),
    )
  }
}

function parsed(written: string): AllowedHost {
  const [, name = '', port = ''] = WRITTEN.exec(written.trim().toLowerCase()) ?? []
  if (name === '') {
    const text = `--media-hosts: "${written}" is invalid: expected images.example.com, *.example.com, host:8443 or *`
    throw new BatonError('config.invalid', text)
  }
  const isBelow = name.startsWith('*.')
  return { name: name === '*' ? null : isBelow ? name.slice(2) : name, isBelow, port }
}
