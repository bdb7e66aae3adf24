/** Parses `host:port` in the options that choose a discovery. */
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
    throw invalidFor(option, text, `expected <host>:<port>, got '${part}'`)
  }
  return { host: host.replace(/^\[|\]$/g, ''), port }
}

/** `option`: the option that contained the text. */
export function invalidFor(option: string, text: string, why: string): BatonError {
  return new BatonError('config.invalid', `${option}: '${text}' is invalid: ${why}`)
}
