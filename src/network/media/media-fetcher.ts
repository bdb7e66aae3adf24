/**
 * Fetches addresses in clients' requests, and nothing that the client could not reach itself (SSRF protection).
 *
 * address ── host listed? ── name resolved: every address public? ── connect to that address ── redirect? start
 * again
 *
 * Owns the rules of such a fetch. The name is resolved once, and the connection goes to the checked address, so that
 * a name that resolves differently a moment later (DNS rebinding) has no effect. No credentials, no cookies, no
 * proxy; limits for time, bytes, redirects and concurrent fetches. A refusal reveals nothing about the network.
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
      const text = `too many media are being fetched: at most ${AT_A_TIME} at a time; try again later`
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

/** Each redirect is checked like the first address. */
async function follow(fetcher: Fetcher, url: string, limits: Limits): Promise<FetchedMedia> {
  let at = addressOf(url)
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    if (!fetcher.hosts.allows(at)) {
      throw invalid('this host is not allowed for media: send the data itself (a `data:` URL)')
    }
    // oxlint-disable-next-line no-await-in-loop -- the next address is known only then
    const response = await opened(at, await checkedAddresses(fetcher, at), limits.signal)
    const { statusCode: status = 0, headers } = response
    // oxlint-disable-next-line no-await-in-loop
    if (status === 200) return await bodyOf(response, limits)
    response.destroy()
    if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined) {
      throw invalid(`the server at the address answered with status ${status}`)
    }
    at = addressOf(headers.location, at)
  }
  throw invalid(`the address redirects more than ${REDIRECTS_MAX} times`)
}

function addressOf(text: string, base?: URL): URL {
  const url = text.length <= URL_CHARACTERS_MAX ? parsed(text, base) : null
  if (url === null) throw invalid('is not a valid URL')
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw invalid('only http and https addresses are fetched')
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

/** One private address among several is sufficient for a refusal, because any of them might be used. */
async function checkedAddresses(
  { isPublic = isPublicAddress, resolve = resolved }: Fetcher,
  { hostname }: URL,
): Promise<readonly string[]> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const addresses = isIP(host) === 0 ? await resolve(host).catch(() => []) : [host]
  if (addresses.length === 0 || !addresses.every(isPublic)) throw invalid(NOT_PUBLIC)
  return addresses
}

/** The same words for both cases, so that the message does not reveal which names exist in the local network. */
const NOT_PUBLIC = 'the address does not exist or is not public'

async function resolved(host: string): Promise<readonly string[]> {
  return (await lookUp(host, { all: true })).map(({ address }) => address)
}

/** The connection goes to one of `addresses`; the host's name is used for the certificate and the Host header. */
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
    throw new BatonError('request.invalid_argument', 'the answer of the address is incomplete', {
      cause,
    })
  }
  const bytes = Buffer.concat(pieces)
  return { byteLength, head: bytes.subarray(0, HEAD_BYTES), base64: bytes.toString('base64') }
}

/** The deadline covers everything: name resolution, connections, redirects, bytes. */
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
    // Cancels whatever is still running.
    controller.abort()
  }
}

function invalid(text: string): BatonError {
  return new BatonError('request.invalid_argument', text)
}

function tooLong(bytesMax: number): BatonError {
  const text = `the content at this address exceeds ${bytesMax} bytes`
  return new BatonError('request.payload_too_large', text)
}
