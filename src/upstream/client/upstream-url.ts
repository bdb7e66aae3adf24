/**
 * The address of an upstream server, as a user writes it, taken apart once.
 */
import { BatonError } from '../../base/index.ts'

export interface UpstreamUrl {
  /** Without a slash at its end; shown to people. Never holds a password. */
  readonly text: string
  readonly isTls: boolean
  readonly host: string
  readonly port: number
  /** What stands in front of every path; empty, or begins with a slash. */
  readonly basePath: string
  /** Value of the Host header. */
  readonly hostHeader: string
  /** Whose certificate it has to be, where an address stands for a name. */
  readonly hostName?: string
  /** `Basic …`, when the address holds a name and a password. */
  readonly authorization?: string
}

/** A missing `http://` is added. `hostName`: of whom the URL has an address. Throws `config.invalid`. */
export function parseUpstreamUrl(written: string, hostName?: string): UpstreamUrl {
  const text = written.includes('://') ? written : `http://${written}`
  let url: URL
  try {
    url = new URL(text)
  } catch (cause) {
    throw invalid(written, 'it is not a URL', cause)
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw invalid(written, 'only http:// and https:// work')
  }
  if (url.search !== '' || url.hash !== '') throw invalid(written, 'it must end with the path')
  const isTls = url.protocol === 'https:'
  const basePath = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')
  const { username, password } = url
  const secret = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return {
    text: `${url.protocol}//${url.host}${basePath}`,
    isTls,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
    basePath,
    hostHeader:
      hostName === undefined ? url.host : `${hostName}${url.port === '' ? '' : `:${url.port}`}`,
    ...(hostName === undefined ? {} : { hostName }),
    ...(username === '' && password === ''
      ? {}
      : { authorization: `Basic ${Buffer.from(secret).toString('base64')}` }),
  }
}

function invalid(written: string, why: string, cause?: unknown): BatonError {
  const shown = written.replace(/\/\/[^/@]*@/, '//…@')
  return new BatonError(
    'config.invalid',
    `upstream ${shown} is invalid: ${why}; expected for example http://gpu-1:8000`,
    cause === undefined ? {} : { cause },
  )
}
