/**
 * Locates images, audio, videos and documents in a body, in the forms of chat, Responses, Messages and the
 * endpoints that accept the same parts: addresses, `data:` URLs and bare base64.
 *
 * Owns: which parts and fields contain media. A field that an engine might fetch and that is missing here would
 * bypass every rule, so the name of a field counts as well as the type of its part.
 */
import { BatonError } from '../../base/index.ts'
import type { FormPart } from '../http/form-parts.ts'
import { asciiOf } from '../http/json-members.ts'
import type { JsonMembers, Member, Span } from '../http/json-members.ts'

export type MediaKind = 'image' | 'audio' | 'video' | 'document' | 'any'

export interface MediaSource {
  /** As error messages name it: `messages[0].content[1].image_url.url`. */
  readonly param: string
  readonly kind: MediaKind
  /** The string with its quotes. */
  readonly value: Span
  /** True: bare base64 is allowed here; otherwise it must be a URL. */
  readonly mayBeBare: boolean
  /** From a neighbouring field: `media_type`, or `format` of audio. */
  readonly mediaType: string | undefined
  /** What has to be replaced when the fetched data does not have the same form as an address. */
  readonly replaces: 'value' | 'anthropic source' | 'file_url'
  /** The span that is replaced. */
  readonly whole: Span
  /** The start of the part that contains it. */
  readonly partStart: number
}

const PART_TYPES =
  /^(?:image|image_url|input_image|computer_screenshot|input_audio|audio|audio_url|video|video_url|input_video|file|input_file|document)$/
const PART_FIELDS =
  /^(?:(?:image|audio|video)s?|image_url|input_image|audio_url|input_audio|video_url|file_url|file_data|image_pil|(?:image|audio|video)_embeds)$/
/** Fields of a part that contain an address. */
const ADDRESS_FIELDS =
  /^(?:url|uri|(?:image|audio|video)s?|image_url|image_pil|audio_url|video_url|file_url)$/
const DATA_FIELDS = /^(?:data|file_data|(?:image|audio|video)_embeds)$/
const HOLDER_FIELDS = /^(?:source|file|input_audio|input_image|input_file|document|frames)$/
/** Fields that contain parts, directly or nested. */
const CONTENT_FIELDS =
  /^(?:messages|input|content|output|system|items|query|queries|documents|text_1|text_2|data_1|data_2|source)$/
/** Types whose content is the user's data for a tool, written by the model. */
const CALL_TYPES =
  /^(?:tool_use|server_tool_use|mcp_tool_use|function_call|custom_tool_call|mcp_call)$/
/** Deeper than any API nests parts; each level is read once more. */
const DEPTH_MAX = 16
/** Fields of these endpoints that are never an address; every other text may be one. */
const PLAIN_FIELDS =
  /^(?:model|prompt|input|text|instructions|user|voice|negative_prompt|metadata)$/

/**
 * `top`: the members of the whole body, which `json` has read searching for `beginsPart`. Throws
 * `request.invalid_argument` when parts are nested too deep.
 */
export function mediaSources(
  body: Uint8Array,
  json: JsonMembers,
  top: readonly Member[],
  path: string,
): readonly MediaSource[] {
  const found = new Finder(body, json)
  if (/^\/(?:v1\/(?:images|audio)\/|pooling$)/.test(path)) found.everyField(top)
  else if (json.hasFound) found.contentOf(top, '', 0)
  return found.sources
}

/** A form contains its files, so a field with an address is refused. */
export function refuseAddressesInForm(body: Uint8Array, parts: readonly FormPart[]): void {
  const found = parts.find(({ name, fileName, valueStart, valueEnd }) => {
    if (fileName !== undefined || PLAIN_FIELDS.test(name)) return false
    return SCHEME.test(asciiOf(body, valueStart, Math.min(valueEnd, valueStart + SHORT_BYTES)))
  })
  if (found === undefined) return
  const { name: param } = found
  const text = `\`${param}\`: addresses in a form are not fetched: send the file itself`
  throw new BatonError('request.invalid_argument', text, { data: { param } })
}

/**
 * The starts of every type and field of a part. Most conversations contain only text, and are not searched for
 * parts.
 */
const BEGINS_OF_PARTS = [
  'image',
  'input_image',
  'input_audio',
  'input_video',
  'input_file',
  'audio',
  'video',
  'file',
  'document',
  'computer_screenshot',
]

/** True when a string may be the type or a field of a part, as far as it is written without escapes. */
export function beginsPart(bytes: Uint8Array, start: number): boolean {
  switch (bytes[start]) {
    // The first characters of these words.
    case 0x69:
    case 0x61:
    case 0x76:
    case 0x66:
    case 0x64:
    case 0x63:
      break
    default:
      return bytes[start] === BACKSLASH
  }
  for (const word of BEGINS_OF_PARTS) if (beginsLike(bytes, start, word)) return true
  return false
}

function beginsLike(bytes: Uint8Array, start: number, word: string): boolean {
  for (let at = 0; at < word.length; at++) {
    const byte = bytes[start + at]
    if (byte !== word.charCodeAt(at)) return byte === BACKSLASH
  }
  return true
}

class Finder {
  readonly sources: MediaSource[] = []
  readonly #body: Uint8Array
  readonly #json: JsonMembers

  constructor(body: Uint8Array, json: JsonMembers) {
    this.#body = body
    this.#json = json
  }

  /** For endpoints with their own fields for media: any text that looks like an address counts as one. */
  everyField(top: readonly Member[]): void {
    for (const member of top) {
      if (!PLAIN_FIELDS.test(member.key)) this.#anyValue(member.valueStart, member.end, member.key)
    }
  }

  contentOf(members: readonly Member[], path: string, depth: number): void {
    for (const { key, valueStart } of members) {
      if (CONTENT_FIELDS.test(key)) this.#content(valueStart, joined(path, key), depth)
    }
  }

  #content(start: number, path: string, depth: number): void {
    const first = this.#body[start]
    if (first !== OPEN_ARRAY && first !== OPEN_OBJECT) return
    if (depth > DEPTH_MAX) {
      const text = `\`${path}\`: content is nested more than ${DEPTH_MAX} levels deep`
      throw new BatonError('request.invalid_argument', text, { data: { param: path } })
    }
    if (first === OPEN_ARRAY) {
      this.#json.elementsAt(start).forEach((element, index) => {
        this.#content(element, `${path}[${index}]`, depth + 1)
      })
      return
    }
    const members = this.#json.membersAt(start)
    const types = members.filter(({ key }) => key === 'type').map((each) => this.#text(each))
    const type = types.find((each) => PART_TYPES.test(each))
    const field = members.find(({ key }) => PART_FIELDS.test(key))?.key
    if (type !== undefined || field !== undefined) {
      this.#part(members, path, kindOf(type ?? field ?? ''), start)
    }
    // The last member of a name counts, as in JSON parsers.
    if (!CALL_TYPES.test(types.at(-1) ?? '')) this.contentOf(members, path, depth + 1)
  }

  #part(
    members: readonly Member[],
    path: string,
    kind: MediaKind,
    start: number,
    partStart = start,
  ): void {
    const textOf = (name: RegExp): string | undefined => {
      const found = members.findLast(({ key }) => name.test(key))
      return found === undefined ? undefined : this.#text(found)
    }
    const type = textOf(/^type$/)
    // A document that is text, or a list of blocks.
    const isProse = type === 'text' || type === 'content'
    const mediaType = textOf(/^(?:media_type|mime_type|format)$/)
    for (const member of members) {
      const { key } = member
      const isAddress = ADDRESS_FIELDS.test(key)
      const mayBeBare = DATA_FIELDS.test(key)
      if (!isAddress && !mayBeBare && !HOLDER_FIELDS.test(key)) continue
      const own = kind === 'any' || key.endsWith('_embeds') ? kindOf(key) : kind
      this.#values(member.valueStart, joined(path, key), (value, param) => {
        if (this.#body[value] === OPEN_OBJECT) {
          this.#part(this.#json.membersAt(value), param, own, value, partStart)
          return
        }
        if (isProse || this.#body[value] !== QUOTE || !(isAddress || mayBeBare)) return
        const span = { start: value, end: endOfString(this.#body, value) }
        const isFileUrl = key === 'file_url' && value === member.valueStart
        const isSource = type === 'url' && key === 'url'
        this.sources.push({
          param,
          kind: own,
          value: span,
          mayBeBare,
          mediaType,
          replaces: isSource ? 'anthropic source' : isFileUrl ? 'file_url' : 'value',
          whole: isSource
            ? { start, end: endOfObject(members, this.#body, start) }
            : isFileUrl
              ? { start: member.start, end: member.end }
              : span,
          partStart,
        })
      })
    }
  }

  /** The value itself, or each element of a list. */
  #values(start: number, path: string, take: (value: number, param: string) => void): void {
    if (this.#body[start] !== OPEN_ARRAY) take(start, path)
    else {
      this.#json.elementsAt(start).forEach((value, index) => take(value, `${path}[${index}]`))
    }
  }

  #anyValue(start: number, end: number, path: string, depth = 0): void {
    const first = this.#body[start]
    if (first === QUOTE) {
      const value = { start, end: endOfString(this.#body, start) }
      if (!SCHEME.test(this.#beginOf(value))) return
      const rest = { mayBeBare: false, mediaType: undefined, replaces: 'value' } as const
      this.sources.push({
        param: path,
        kind: 'any',
        value,
        whole: value,
        partStart: start,
        ...rest,
      })
    } else if (depth <= DEPTH_MAX && first === OPEN_ARRAY) {
      this.#json.elementsAt(start).forEach((element, index) => {
        this.#anyValue(element, end, `${path}[${index}]`, depth + 1)
      })
    } else if (depth <= DEPTH_MAX && first === OPEN_OBJECT) {
      for (const { key, valueStart, end: memberEnd } of this.#json.membersAt(start)) {
        this.#anyValue(valueStart, memberEnd, joined(path, key), depth + 1)
      }
    }
  }

  /** The first characters of a string, without escapes. */
  #beginOf({ start, end }: Span): string {
    const written = asciiOf(this.#body, start, Math.min(end, start + SHORT_BYTES))
    if (!written.includes('\\')) return written.slice(1)
    try {
      const whole = new TextDecoder().decode(this.#body.subarray(start, end))
      return String(JSON.parse(whole)).slice(0, SHORT_BYTES)
    } catch {
      return ''
    }
  }

  /** A short text; empty for other values. */
  #text({ valueStart, end }: Member): string {
    if (this.#body[valueStart] !== QUOTE || end - valueStart > SHORT_BYTES) return ''
    const written = asciiOf(this.#body, valueStart, end)
    if (!written.includes('\\')) return written.slice(1, -1)
    try {
      return String(JSON.parse(written))
    } catch {
      return ''
    }
  }
}

/** Schemes that media loaders open. */
const SCHEME = /^[\0- ]*(?:https?|ftps?|file|s3|gs|gcs|az|abfss?|hdfs|data):/i
const SHORT_BYTES = 256
const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_ARRAY = 0x5b
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

function kindOf(name: string): MediaKind {
  if (name.endsWith('_embeds')) return 'any'
  if (/image|screenshot/.test(name)) return 'image'
  if (/audio/.test(name)) return 'audio'
  if (/video/.test(name)) return 'video'
  return /file|document/.test(name) ? 'document' : 'any'
}

function joined(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

/** The position after the closing quote; the JSON structure was checked before. */
function endOfString(bytes: Uint8Array, open: number): number {
  let at = bytes.indexOf(QUOTE, open + 1)
  for (;;) {
    let before = at
    while (bytes[before - 1] === BACKSLASH) before--
    if ((at - before) % 2 === 0) return at + 1
    at = bytes.indexOf(QUOTE, at + 1)
  }
}

function endOfObject(members: readonly Member[], bytes: Uint8Array, start: number): number {
  return bytes.indexOf(CLOSE_OBJECT, members.at(-1)?.end ?? start) + 1
}
