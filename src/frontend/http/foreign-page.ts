/**
 * Detects requests of foreign web pages. When a port is protected only by being local, a browser on the machine
 * is a way in: a page may send simple requests anywhere, and its own name may resolve to this machine (DNS
 * rebinding).
 *
 * Owns: how such a request is recognised. Programs send neither `Origin` nor `Sec-Fetch-Site`.
 */

type Headers = Readonly<Record<string, string>>

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d{1,5})?$/i
const IS_ADDRESS = /^(\[[0-9a-f:.]+\]|[0-9.]+)$/i
const IS_OWN_NAME = /^(localhost|.+\.localhost)$/i

/**
 * Returns whether a page of an origin may call. `origins`: as browsers send them, or `*` for all. Pages of this
 * machine always may.
 */
export function allowedOrigins(origins: readonly string[]): (origin: string) => boolean {
  const allowed = new Set(origins.map((origin) => origin.toLowerCase()))
  return (origin) =>
    LOOPBACK_ORIGIN.test(origin) || allowed.has('*') || allowed.has(origin.toLowerCase())
}

/** True when `Host` names this machine. A client that sends no `Host` is not a browser. */
export function namesThisMachine(headers: Headers): boolean {
  const name = (headers['host'] ?? '').replace(/:\d+$/, '')
  return name === '' || IS_ADDRESS.test(name) || IS_OWN_NAME.test(name)
}

/**
 * True when a page of another origin requests a change. Reads are let through, because the page cannot see the
 * answer.
 */
export function isDoneByForeignPage(
  method: string,
  headers: Headers,
  isAllowed: (origin: string) => boolean,
): boolean {
  if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return false
  const { origin, host = '' } = headers
  const site = headers['sec-fetch-site']
  if (site === 'same-origin' || site === 'none') return false
  if (origin === undefined) return site !== undefined
  return (
    !isAllowed(origin) && origin.toLowerCase().replace(/^https?:\/\//, '') !== host.toLowerCase()
  )
}
