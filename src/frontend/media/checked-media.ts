/**
 * Checks the media of a forwarded body: type and size must be allowed, and no engine is given an address to
 * fetch. Content at an address is fetched here, if that is allowed, and inserted into the body.
 *
 * It is fetched here and not by the engine, because only the opener of a connection can ensure that it goes to
 * the checked address: a public name may resolve to a private address a second later, and a redirect may lead
 * anywhere.
 */
import { BatonError } from '../../base/index.ts'
import type { CancelSignal } from '../../base/index.ts'
import { asciiOf } from '../http/json-members.ts'
import type { Span } from '../http/json-members.ts'
import { base64Facts } from './base64.ts'
import { MEDIA_COUNT_MAX } from './media-options.ts'
import type { FetchedMedia, MediaOptions } from './media-options.ts'
import type { MediaSource } from './media-sources.ts'
import { fitsBytes, fitsDeclared, shownType } from './media-type.ts'
import { replacedSpans } from '../http/replaced-spans.ts'

interface CheckOptions extends MediaOptions {
  /** Limit of the body, including fetched content. */
  readonly bodyBytesMax: number
  readonly signal: CancelSignal
}

/** The body to forward; the same object when nothing was fetched. Throws the error for the client. */
export async function checkedMedia(
  body: Uint8Array,
  sources: readonly MediaSource[],
  options: CheckOptions,
): Promise<Uint8Array> {
  if (sources.length === 0) return body
  if (sources.length > MEDIA_COUNT_MAX) {
    const { param = '' } = sources[MEDIA_COUNT_MAX] ?? {}
    throw refused(
      param,
      `too many images, recordings and documents: at most ${MEDIA_COUNT_MAX} are allowed`,
    )
  }
  // Everything that can be refused without fetching is refused first.
  const addresses = sources.flatMap((source) => addressOf(body, source, options) ?? [])
  const replacements: { readonly span: Span; readonly text: string }[] = []
  let room = options.bodyBytesMax - body.length
  for (const { source, url } of addresses) {
    const bytesMax = Math.min(options.bytesMax, Math.floor((room * 3) / 4))
    // One after the other, because the remaining room is known only then. oxlint-disable-next-line
    // no-await-in-loop
    const fetched = await fetchedOf(source, url, { ...options, bytesMax })
    const text = replacementOf(source, fetched)
    room -= text.length
    replacements.push({ span: source.whole, text })
  }
  return replacements.length === 0 ? body : replacedSpans(body, replacements)
}

interface Address {
  readonly source: MediaSource
  readonly url: string
}

/** Null: there is nothing to fetch, and the content is valid. */
function addressOf(body: Uint8Array, source: MediaSource, options: CheckOptions): Address | null {
  const text = contentOf(body, source.value)
  const head = asciiOf(text, 0, Math.min(text.length, HEAD_BYTES))
  // URL parsers ignore blanks and control characters at the start. oxlint-disable-next-line no-control-regex
  const [blank = ''] = /^[\0- ]*/.exec(head) ?? []
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(head.slice(blank.length))?.[1]?.toLowerCase()
  if (scheme === undefined) {
    if (!source.mayBeBare) {
      throw refused(source.param, 'must be a `data:` URL, or an http or https address')
    }
    checkBytes(source, text, source.mediaType ?? '', options)
    return null
  }
  if (scheme === 'data') {
    checkDataUrl(source, text.subarray(blank.length), options)
    return null
  }
  if (scheme !== 'http' && scheme !== 'https') {
    throw refused(source.param, `addresses of ${scheme}: are never fetched`)
  }
  if (options.fetch === undefined) {
    throw refused(
      source.param,
      'this server fetches no addresses: send the data itself (a `data:` URL), or allow the host (--media-hosts)',
    )
  }
  return { source, url: new TextDecoder().decode(text).trim() }
}

const HEAD_BYTES = 1024

/** Without quotes and escapes. */
function contentOf(body: Uint8Array, { start, end }: Span): Uint8Array {
  const inside = body.subarray(start + 1, end - 1)
  if (!inside.includes(BACKSLASH)) return inside
  try {
    const text: unknown = JSON.parse(new TextDecoder().decode(body.subarray(start, end)))
    return new TextEncoder().encode(String(text))
  } catch {
    return inside
  }
}

const BACKSLASH = 0x5c
const COMMA = 0x2c

function checkDataUrl(source: MediaSource, text: Uint8Array, options: CheckOptions): void {
  const comma = text.indexOf(COMMA)
  if (comma < 0 || comma > HEAD_BYTES)
    throw refused(source.param, 'is not a valid `data:` URL: the comma is missing')
  const said = asciiOf(text, 'data:'.length, comma)
  const payload = text.subarray(comma + 1)
  const type = said.split(';')[0] ?? ''
  if (/;\s*base64\s*$/i.test(said)) {
    // The frames of a video, separated by commas.
    const isFrames = type.toLowerCase() === 'video/jpeg'
    const bytes = isFrames ? payload.filter((unit) => unit !== COMMA && unit !== PADDING) : payload
    checkBytes(source, bytes, type, options)
    return
  }
  refuseType(source, type)
  refuseLength(source, payload.length, options.bytesMax)
  refuseBytes(source, payload.subarray(0, 512))
}

const PADDING = 0x3d

function checkBytes(
  source: MediaSource,
  base64: Uint8Array,
  mediaType: string,
  { bytesMax }: CheckOptions,
): void {
  refuseType(source, mediaType)
  // The length is checked before the content is read.
  refuseLength(
    source,
    Math.floor((base64.length * 3) / 4) - 2 - LINE_BREAKS * base64.length,
    bytesMax,
  )
  const facts = base64Facts(base64)
  if (facts === null) throw refused(source.param, 'is not base64')
  if (facts.byteLength === 0) throw refused(source.param, 'is empty')
  refuseLength(source, facts.byteLength, bytesMax)
  refuseBytes(source, facts.head)
}

/**
 * Largest share of white space: line breaks (two after 64 characters) up to a quarter; beyond that the digits
 * are counted.
 */
const LINE_BREAKS = 0.25

async function fetchedOf(
  { param, kind }: MediaSource,
  url: string,
  options: CheckOptions,
): Promise<FetchedMedia> {
  try {
    if (options.fetch === undefined) throw refused(param, 'cannot be fetched')
    const { bytesMax, signal } = options
    const fetched = await options.fetch(url, { bytesMax, signal })
    if (fetched.byteLength === 0) throw refused(param, 'the content at this address is empty')
    if (!fitsBytes(kind, fetched.head)) {
      throw refused(param, `the content at this address is not ${named(kind)}`)
    }
    return fetched
  } catch (thrown) {
    if (!(thrown instanceof BatonError) || thrown.data['param'] !== undefined) throw thrown
    if (!thrown.code.startsWith('request.')) throw thrown
    throw new BatonError(thrown.code, `\`${param}\`: ${thrown.message}`, {
      cause: thrown,
      data: { param },
    })
  }
}

function replacementOf(source: MediaSource, { head, base64 }: FetchedMedia): string {
  const type = shownType(head) ?? FALLBACK[source.kind]
  if (source.replaces === 'anthropic source') {
    return `{"type":"base64","media_type":"${type}","data":"${base64}"}`
  }
  const name = source.replaces === 'file_url' ? '"file_data":' : ''
  return `${name}"data:${type};base64,${base64}"`
}

const FALLBACK: Readonly<Record<MediaSource['kind'], string>> = {
  image: 'image/png',
  audio: 'audio/wav',
  video: 'video/mp4',
  document: 'application/pdf',
  any: 'application/octet-stream',
}

/** `format` of audio is a word, for example `wav`. */
function refuseType({ param, kind }: MediaSource, said: string): void {
  const type = said.trim().toLowerCase()
  if (!type.includes('/') && (kind === 'audio' || kind === 'any')) return
  if (fitsDeclared(kind, type)) return
  throw refused(param, `media type "${type.slice(0, 80)}" is not accepted for ${named(kind)}`)
}

function refuseBytes({ param, kind }: MediaSource, head: Uint8Array): void {
  if (!fitsBytes(kind, head)) throw refused(param, `the data is not ${named(kind)}`)
}

function refuseLength({ param }: MediaSource, bytes: number, bytesMax: number): void {
  if (bytes <= bytesMax) return
  const text = `\`${param}\`: more than ${bytesMax} bytes (--media-limit)`
  throw new BatonError('request.payload_too_large', text, { data: { param, limit: bytesMax } })
}

function named(kind: MediaSource['kind']): string {
  switch (kind) {
    case 'image':
      return 'an image'
    case 'audio':
      return 'audio'
    case 'video':
      return 'a video'
    case 'document':
      return 'a document'
    case 'any':
      return 'media'
  }
}

function refused(param: string, what: string): BatonError {
  return new BatonError('request.invalid_argument', `\`${param}\`: ${what}`, { data: { param } })
}
