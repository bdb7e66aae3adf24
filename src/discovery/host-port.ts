/** A host and a port, as the texts that choose a discovery write them. */
import { BatonError } from '../base/index.ts'

export interface HostPort {
  readonly host: string
  readonly port: number
}

export function hostPortOf(
  text: string,
  part: string,
  standard?: number,
  option = '--discovery',
): HostPort {
  const [, host = '', digits] = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(part) ?? []
  const port = digits === undefined ? standard : Number(digits)
  if (host === '' || port === undefined || port < 1 || port > 65_535) {
    throw invalidFor(option, text, `'${part}' is not <host>:<port>`)
  }
  return { host: host.replace(/^\[|\]$/g, ''), port }
}

/** `option`: the one that the text was given with. */
export function invalidFor(option: string, text: string, why: string): BatonError {
  return new BatonError('config.invalid', `${option}: '${text}' is invalid: ${why}`)
}
