/**
 * Where nothing but this machine's address guards a port, a browser on it is a way in for any web page: a page may send a
 * simple request anywhere, and may have its own name resolved to this machine (DNS rebinding).
 *
 * Owns: how a call of such a page is told from others. Programs send neither `Origin` nor `Sec-Fetch-Site`.
 */

type Headers = Readonly<Record<string, string>>

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d{1,5})?$/i
const IS_ADDRESS = /^(\[[0-9a-f:.]+\]|[0-9.]+)$/i
const IS_OWN_NAME = /^(localhost|.+\.localhost)$/i

/** Whether a page of this origin may call; `origins` as browsers send them, or `*` for all. Pages of this machine always may. */
export function allowedOrigins(origins: readonly string[]): (origin: string) => boolean {
  const allowed = new Set(origins.map((origin) => origin.toLowerCase()))
  return (origin) =>
    LOOPBACK_ORIGIN.test(origin) || allowed.has('*') || allowed.has(origin.toLowerCase())
}

/** Whether `Host` names this machine; a program that sends none is no browser. */
export function namesThisMachine(headers: Headers): boolean {
  const name = (headers['host'] ?? '').replace(/:\d+$/, '')
  return name === '' || IS_ADDRESS.test(name) || IS_OWN_NAME.test(name)
}

/**
 * Whether a web page of another origin wants something done. What only reads is let through: the page gets no answer to see.
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
