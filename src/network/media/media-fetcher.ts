/**
 * Fetches what stands behind addresses in clients' requests, and nothing that the client could not reach itself.
 *
 *   address ── host listed? ── name looked up: every address public? ── connection to that address ── redirect? from the begin
 *
 * Owns: the rules of such a fetch. The name is looked up once, and the connection goes to the address that was checked, so
 * that a name that says something else a moment later (DNS rebinding) changes nothing. No credentials, no cookies, no proxy;
 * bounds of time, bytes, redirects and fetches at a time. A refusal says nothing of what is behind a name.
 */
import { lookup as lookUp } from 'node:dns/promises'
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { BatonError } from '../../base/index.ts'
import type { CancelSignal } from '../../base/index.ts'
import type { FetchedMedia, FetchMedia } from '../../frontend/index.ts'
import { AllowedHosts } from './allowed-hosts.ts'
import { isPublicAddress } from './public-address.ts'

interface MediaFetcherOptions {
  readonly hosts: readonly string[]
  /** For tests, whose servers are on this machine. */
  readonly isPublic?: (address: string) => boolean
  readonly resolve?: (host: string) => Promise<readonly string[]>
  readonly deadlineMs?: number
}

const DEADLINE_MS = 10_000
const REDIRECTS_MAX = 3
const AT_A_TIME = 32
const HEAD_BYTES = 512
const URL_CHARACTERS_MAX = 8192

export function createMediaFetcher(options: MediaFetcherOptions): FetchMedia {
  const hosts = new AllowedHosts(options.hosts)
  const fetcher = { ...options, hosts }
  let running = 0
  return async (url, limits) => {
    if (running >= AT_A_TIME) {
      const text = `${AT_A_TIME} addresses of media are being fetched already`
      throw new BatonError('capacity.exhausted', text)
    }
    running++
    try {
      return await within(options.deadlineMs ?? DEADLINE_MS, limits.signal, (signal) =>
        follow(fetcher, url, { bytesMax: limits.bytesMax, signal }),
      )
    } finally {
      running--
    }
  }
}

interface Fetcher extends Omit<MediaFetcherOptions, 'hosts'> {
  readonly hosts: AllowedHosts
}

interface Limits {
  readonly bytesMax: number
  readonly signal: AbortSignal
}

/** Each stop on the way is checked like the first one. */
async function follow(fetcher: Fetcher, url: string, limits: Limits): Promise<FetchedMedia> {
  let at = addressOf(url)
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    if (!fetcher.hosts.allows(at)) {
      throw invalid('media of this host are not fetched here: send the data itself (a `data:` URL)')
    }
    // oxlint-disable-next-line no-await-in-loop -- where to go next is known only then
    const response = await opened(at, await checkedAddresses(fetcher, at), limits.signal)
    const { statusCode: status = 0, headers } = response
    // oxlint-disable-next-line no-await-in-loop
    if (status === 200) return await bodyOf(response, limits)
    response.destroy()
    if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined) {
      throw invalid(`the address answered ${status}`)
    }
    at = addressOf(headers.location, at)
  }
  throw invalid(`the address redirects more than ${REDIRECTS_MAX} times`)
}

function addressOf(text: string, base?: URL): URL {
  const url = text.length <= URL_CHARACTERS_MAX ? parsed(text, base) : null
  if (url === null) throw invalid('is no address')
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw invalid('only addresses of http and https are fetched')
  }
  if (url.username !== '' || url.password !== '') {
    throw invalid('an address with a user name or password is not fetched')
  }
  return url
}

function parsed(text: string, base: URL | undefined): URL | null {
  try {
    return new URL(text, base)
  } catch {
    return null
  }
}

/** One private address among several is enough to refuse: which one is taken is nobody's promise. */
async function checkedAddresses(
  { isPublic = isPublicAddress, resolve = resolved }: Fetcher,
  { hostname }: URL,
): Promise<readonly string[]> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const addresses = isIP(host) === 0 ? await resolve(host).catch(() => []) : [host]
  if (addresses.length === 0 || !addresses.every(isPublic)) throw invalid(NOT_PUBLIC)
  return addresses
}

/** The same words for both: which names there are in a network is not told. */
const NOT_PUBLIC = 'the address is not there, or not a public one'

async function resolved(host: string): Promise<readonly string[]> {
  return (await lookUp(host, { all: true })).map(({ address }) => address)
}

/** The connection goes to one of `addresses`; the host's name is for the certificate and the server. */
function opened(
  url: URL,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const begin = url.protocol === 'https:' ? httpsRequest : httpRequest
  const all = addresses.map((address) => ({ address, family: isIP(address) }))
  return new Promise((resolve, reject) => {
    const request = begin(
      url,
      {
        agent: false,
        signal,
        headers: { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'baton' },
        lookup: (_host, asked, found) => {
          const [first] = all
          if (asked.all === true || first === undefined) found(null, all)
          else found(null, first.address, first.family)
        },
      },
      resolve,
    )
    request.once('error', (cause) => {
      const text = 'the address could not be reached'
      reject(new BatonError('request.invalid_argument', text, { cause }))
    })
    request.end()
  })
}

async function bodyOf(response: IncomingMessage, { bytesMax }: Limits): Promise<FetchedMedia> {
  const encoding = response.headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity') {
    response.destroy()
    throw invalid('the address answered with compressed data')
  }
  const pieces: Buffer[] = []
  let byteLength = 0
  try {
    if (Number(response.headers['content-length'] ?? 0) > bytesMax) throw tooLong(bytesMax)
    for await (const piece of response as AsyncIterable<Buffer>) {
      byteLength += piece.length
      if (byteLength > bytesMax) throw tooLong(bytesMax)
      pieces.push(piece)
    }
  } catch (cause) {
    response.destroy()
    if (cause instanceof BatonError) throw cause
    throw new BatonError('request.invalid_argument', 'the address broke off its answer', { cause })
  }
  const bytes = Buffer.concat(pieces)
  return { byteLength, head: bytes.subarray(0, HEAD_BYTES), base64: bytes.toString('base64') }
}

/** The time covers all of it: names, connections, redirects, bytes. */
async function within(
  deadlineMs: number,
  client: CancelSignal,
  work: (signal: AbortSignal) => Promise<FetchedMedia>,
): Promise<FetchedMedia> {
  const controller = new AbortController()
  const end = (): void => controller.abort()
  const timer = setTimeout(end, deadlineMs)
  const late = new Promise<never>((_, reject) => {
    controller.signal.addEventListener('abort', () => {
      reject(invalid(`the address did not answer within ${deadlineMs} ms`))
    })
  })
  client.addEventListener('abort', end)
  if (client.aborted) end()
  try {
    return await Promise.race([work(controller.signal), late])
  } finally {
    clearTimeout(timer)
    client.removeEventListener('abort', end)
    // Whatever of it still runs.
    controller.abort()
  }
}

function invalid(text: string): BatonError {
  return new BatonError('request.invalid_argument', text)
}

function tooLong(bytesMax: number): BatonError {
  const text = `what stands at this address has more than ${bytesMax} bytes`
  return new BatonError('request.payload_too_large', text)
}
