/**
 * The body of a forwarded request: what Baton reads of it, and the bytes that are sent to the engine.
 *
 * The bytes are the client's, with three changes: fields of KV transfer are removed, the model's name is
 * replaced when the engine uses another one, and for a client with a key its tenant's salt is set. Numbers, key
 * order and white space are preserved.
 */
import { assert, BatonError, ownMemory } from '../../base/index.ts'
import { withFields } from '../../request/index.ts'
import { formBoundary, formParts } from '../http/form-parts.ts'
import { asciiOf, JsonMembers } from '../http/json-members.ts'
import type { Member, Span } from '../http/json-members.ts'
import { replacedSpans } from '../http/replaced-spans.ts'
import { beginsPart, mediaSources, refuseAddressesInForm } from '../media/media-sources.ts'
import type { MediaSource } from '../media/media-sources.ts'
import { routingTokens, tokensOfBytes } from './routing-tokens.ts'
import type { RoutingTokens } from './routing-tokens.ts'
import { isTransferField, transferFields, withoutSpans } from './transfer-fields.ts'
import { prefillFormOf } from './prefill-body.ts'
import type { PrefillForm } from './prefill-body.ts'

export interface ForwardBody {
  readonly model: string | undefined
  readonly isStream: boolean
  readonly cacheSalt: string | undefined
  /** The most output tokens of all choices that the client asks for, computed on demand; undefined: no limit. */
  outputTokens(): number | undefined
  /** Computed on demand. */
  routingTokens(): RoutingTokens
  /**
   * Images, audio, videos and documents. Throws the error for the client when they are where they cannot be
   * checked.
   */
  media(): readonly MediaSource[]
  /** The bytes that are sent to the engine. */
  bytes(changes?: BodyChanges): Uint8Array
  /** True when the request can be split into legs. */
  readonly isDividable: boolean
  /** The bytes of a prefill leg, which generates one token; only for a body that can be split. */
  prefillBytes(changes: BodyChanges, isStreamed: boolean): Uint8Array
}

interface BodyChanges {
  /** Replaces the client's name of the model. */
  readonly model?: string | undefined
  /** Replaces the client's cache salt; empty: the salt is removed. Absent: it is kept. */
  readonly salt?: string | undefined
}

/** Fields in which engines look for the salt of their prompt cache; SGLang combines both. */
const SALTS: ReadonlySet<string> = new Set(['cache_salt', 'extra_key'])

const NO_SPANS: readonly Span[] = []
const utf8 = new TextDecoder()

/** `path`: of the request. Throws `request.invalid_argument` for a body that is neither JSON nor a form. */
export function readForwardBody(
  body: Uint8Array,
  contentType: string | undefined,
  path: string,
): ForwardBody {
  const boundary = formBoundary(contentType)
  return boundary === null ? new JsonBody(body, path) : formBody(body, boundary)
}

/** Everything except the positions of the members is computed on demand. A class, because every request has one. */
class JsonBody implements ForwardBody {
  readonly model: string | undefined
  readonly isStream: boolean
  readonly cacheSalt: string | undefined
  readonly #body: Uint8Array
  readonly #path: string
  readonly #json: JsonMembers
  readonly #top: readonly Member[]
  readonly #longStrings: readonly Span[]
  readonly #model: Member | undefined
  readonly #form: PrefillForm | null
  #sources: readonly MediaSource[] | null = null

  constructor(body: Uint8Array, path: string) {
    const json = new JsonMembers(body, beginsPart)
    const top = json.top()
    let model: Member | undefined
    let stream: Member | undefined
    let salt: Member | undefined
    // The last member of a name counts.
    for (const member of top) {
      if (member.key === 'model') model = member
      else if (member.key === 'stream') stream = member
      else if (member.key === 'cache_salt') salt = member
    }
    this.#body = body
    this.#path = path
    this.#json = json
    this.#top = top
    // Reading parts of the body again adds to the list.
    this.#longStrings = json.longStrings.length === 0 ? NO_SPANS : json.longStrings.slice()
    this.#model = model
    this.#form = prefillFormOf(body, top, path)
    this.model = stringAt(body, model)
    this.isStream = stream !== undefined && asciiOf(body, stream.valueStart, stream.end) === 'true'
    this.cacheSalt = stringAt(body, salt)
  }

  outputTokens(): number | undefined {
    return outputTokensOf(this.#body, this.#top)
  }

  get isDividable(): boolean {
    return this.#form !== null
  }

  routingTokens(): RoutingTokens {
    return routingTokens(this.#body, this.#top, {
      longStrings: this.#longStrings,
      media: this.media(),
    })
  }

  media(): readonly MediaSource[] {
    this.#sources ??= mediaSources(this.#body, this.#json, this.#top, this.#path)
    return this.#sources
  }

  bytes(changes: BodyChanges = {}): Uint8Array {
    return this.#written(changes, null)
  }

  prefillBytes(changes: BodyChanges, isStreamed: boolean): Uint8Array {
    const form = this.#form
    assert(form !== null, 'only a body that can be split has a prefill leg')
    const kept = this.#written(changes, form.ofDecode)
    return withFields(kept, `"stream":${isStreamed},${form.fields}`)
  }

  #written({ model: name, salt }: BodyChanges, alsoCut: ReadonlySet<string> | null): Uint8Array {
    const isCut = (key: string): boolean =>
      (salt !== undefined && SALTS.has(key)) || alsoCut?.has(key) === true
    const body = this.#body
    const model = this.#model
    const cuts = transferFields(this.#json, this.#top, isCut)
    const kept =
      name === undefined || model === undefined
        ? withoutSpans(body, cuts)
        : replaced(body, cuts, { start: model.valueStart, end: model.end }, JSON.stringify(name))
    if (salt === undefined || salt === '') return owned(kept, body)
    return owned(withFields(kept, `"cache_salt":${JSON.stringify(salt)}`), body)
  }
}

/** The changed bytes may be freed by whoever sends them; the client's own bytes belong to the server. */
function owned(bytes: Uint8Array, body: Uint8Array): Uint8Array {
  if (bytes.buffer !== body.buffer) ownMemory(bytes.buffer)
  return bytes
}

function formBody(body: Uint8Array, boundary: string): ForwardBody {
  const parts = formParts(body, boundary)
  const part = (name: string) => parts.find((each) => each.name === name)
  const text = (name: string): string | undefined => {
    const found = part(name)
    return found === undefined
      ? undefined
      : utf8.decode(body.subarray(found.valueStart, found.valueEnd)).trim()
  }
  const cuts = parts.filter(({ name }) => isTransferPart(name))
  return {
    model: text('model'),
    isStream: text('stream')?.toLowerCase() === 'true',
    cacheSalt: undefined,
    isDividable: false,
    outputTokens: () => undefined,
    prefillBytes: () => body,
    routingTokens: () => {
      const file = part('file') ?? { valueStart: 0, valueEnd: body.length }
      return tokensOfBytes(body.subarray(file.valueStart, file.valueEnd))
    },
    media: () => {
      refuseAddressesInForm(body, parts)
      return []
    },
    bytes: ({ model: name } = {}) => {
      const model = part('model')
      if (name === undefined || model === undefined) return withoutSpans(body, cuts)
      return replaced(body, cuts, { start: model.valueStart, end: model.valueEnd }, name)
    },
  }
}

/** In a form such a field contains JSON. It is removed whole, because nothing inside it can be cut. */
function isTransferPart(name: string): boolean {
  return isTransferField(name) || /^(?:vllm_xargs|extra_args|extra_body)\b/.test(name)
}

/** Cuts inside the replaced span are dropped. */
function replaced(bytes: Uint8Array, cuts: readonly Span[], span: Span, text: string): Uint8Array {
  const others = cuts.filter(({ start, end }) => end <= span.start || start >= span.end)
  return replacedSpans(bytes, [...others.map((cut) => ({ span: cut, text: '' })), { span, text }])
}

const OUTPUT_LIMITS = ['max_completion_tokens', 'max_output_tokens', 'max_tokens']

function outputTokensOf(bytes: Uint8Array, top: readonly Member[]): number | undefined {
  const countOf = (name: string): number | undefined => {
    const member = top.findLast(({ key }) => key === name)
    if (member === undefined || member.end - member.valueStart > 16) return undefined
    const written = asciiOf(bytes, member.valueStart, member.end)
    return /^\d+$/.test(written) ? Number(written) : undefined
  }
  const limits = OUTPUT_LIMITS.flatMap((name) => countOf(name) ?? [])
  return limits.length === 0 ? undefined : Math.max(...limits) * (countOf('n') ?? 1)
}

function stringAt(bytes: Uint8Array, member: Member | undefined): string | undefined {
  if (member === undefined || bytes[member.valueStart] !== 0x22) return undefined
  const ascii = asciiOf(bytes, member.valueStart, member.end)
  const written = BEYOND_ASCII.test(ascii)
    ? utf8.decode(bytes.subarray(member.valueStart, member.end))
    : ascii
  if (!written.includes('\\')) return written.slice(1, -1)
  try {
    return String(JSON.parse(written))
  } catch (cause) {
    throw new BatonError('request.invalid_argument', `\`${member.key}\` is invalid`, { cause })
  }
}

const BEYOND_ASCII = /[\u0080-\u00ff]/
