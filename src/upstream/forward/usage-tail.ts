/**
 * Finds the usage that an engine reports in the end of its answer (and at the beginning, where the Anthropic API
 * reports the prompt's length) without parsing the rest.
 */
import { isRecord } from '../../base/index.ts'
import { usageOf } from '../../request/index.ts'
import type { Usage } from '../../request/index.ts'
import { jsonOf } from '../client/fetch-json.ts'
import { countIn } from '../dialects/plain-values.ts'

const TAIL_CHARACTERS = 8192
const HEAD_CHARACTERS = 4096
const USAGE_CHARACTERS_MAX = 4096
const KEY = '"usage"'

/** For pieces that may be cut anywhere. */
export class UsageTail {
  #head = ''
  #tail = ''
  /** The piece before the tail; together they are long enough. */
  #before = ''

  push(text: string): void {
    if (this.#head.length < HEAD_CHARACTERS) this.#head += text.slice(0, HEAD_CHARACTERS)
    if (this.#tail.length >= TAIL_CHARACTERS) {
      this.#before = this.#tail
      this.#tail = ''
    }
    this.#tail += text
  }

  /** Null: the engine has not reported usage. */
  usage(): Usage | null {
    const tail = this.#before + this.#tail
    return usageFrom(firstUsage(this.#head), lastUsage(tail))
  }
}

/** The same for texts that are complete: events, or a whole answer. Nothing else of them is kept. */
export class UsageOfEvents {
  #first: Found | null = null
  #last: Found | null = null

  push(text: string): void {
    const at = lastObject(text)
    if (at < 0) return
    this.#last = { text, at }
    this.#first ??= { text, at: firstObject(text) }
  }

  /** Null: the engine has not reported usage. */
  usage(): Usage | null {
    const [first, last] = [this.#first, this.#last]
    if (first === null || last === null) return null
    const isOne = first.text === last.text && first.at === last.at
    const read = usageAt(last.text, last.at)
    return usageFrom(isOne ? read : usageAt(first.text, first.at), read)
  }
}

/** For a complete answer. */
export function usageOfWhole(text: string): Usage | null {
  const events = new UsageOfEvents()
  events.push(text)
  return events.usage()
}

/** What an engine says beyond what is possible is left out, because metrics and the limits of keys add it up. */
function usageFrom(first: Fields | null, last: Fields | null): Usage | null {
  if (last === null && first === null) return null
  const told = (names: readonly string[]): number | undefined =>
    firstCountIn(last, names) ?? firstCountIn(first, names)
  const read = told(CACHE_READ)
  const detail = cachedIn(last) ?? cachedIn(first)
  // The Anthropic API counts cached tokens beside the others. Gateways repeat its fields beside the counts of OpenAI's
  // API, which contain them already.
  const isBeside = read !== undefined && detail === undefined && told(PROMPT_TOTAL) === undefined
  const beside = isBeside ? read + (told(CACHE_WRITTEN) ?? 0) : 0
  const input = told(PROMPT)
  const prompt = input === undefined ? 0 : Math.min(input + beside, COUNT_MAX)
  const cached = detail ?? read
  return usageOf(
    prompt,
    told(COMPLETION) ?? 0,
    cached === undefined || input === undefined ? undefined : Math.min(cached, prompt),
  )
}

interface Found {
  readonly text: string
  /** The position of the key. */
  readonly at: number
}

/** The last position of `"usage"` followed by an object; -1: there is none. */
function lastObject(text: string): number {
  let at = text.lastIndexOf(KEY)
  while (at >= 0 && !isObjectAt(text, at)) at = at === 0 ? -1 : text.lastIndexOf(KEY, at - 1)
  return at
}

function firstObject(text: string): number {
  let at = text.indexOf(KEY)
  while (at >= 0 && !isObjectAt(text, at)) at = text.indexOf(KEY, at + 1)
  return at
}

/** Most engines write `null` in every event but one. */
function isObjectAt(text: string, at: number): boolean {
  let behind = at + KEY.length
  for (; behind < text.length; behind++) {
    const code = text.charCodeAt(behind)
    if (code === OPEN) return text.charCodeAt(at - 1) !== BACKSLASH
    if (code !== COLON && code > BLANK) return false
  }
  return false
}

const OPEN = 0x7b
const COLON = 0x3a
const BLANK = 0x20
const BACKSLASH = 0x5c

type Fields = Readonly<Record<string, unknown>>

const PROMPT_TOTAL = ['prompt_tokens']
const PROMPT = [...PROMPT_TOTAL, 'input_tokens']
const COMPLETION = ['completion_tokens', 'output_tokens']
const DETAILS = ['prompt_tokens_details', 'input_tokens_details']
const CACHE_READ = ['cache_read_input_tokens']
const CACHE_WRITTEN = ['cache_creation_input_tokens']
/** What `countIn` takes for a count. */
const COUNT_MAX = 0xffffffff

function firstCountIn(fields: Fields | null, names: readonly string[]): number | undefined {
  for (const name of names) {
    const count = countIn(fields, name)
    if (count !== undefined) return count
  }
  return undefined
}

function cachedIn(fields: Fields | null): number | undefined {
  for (const name of DETAILS) {
    const details = fields?.[name]
    if (isRecord(details)) return countIn(details, 'cached_tokens')
  }
  return undefined
}

function lastUsage(text: string): Fields | null {
  for (let at = text.lastIndexOf(KEY); at >= 0; at = text.lastIndexOf(KEY, at - 1)) {
    const found = usageAt(text, at)
    if (found !== null || at === 0) return found
  }
  return null
}

function firstUsage(text: string): Fields | null {
  const at = text.indexOf(KEY)
  return at < 0 ? null : usageAt(text, at)
}

/** Null for a match inside a string, for `null`, and for an incomplete object. */
function usageAt(text: string, at: number): Fields | null {
  if (text[at - 1] === '\\') return null
  const start =
    at +
    KEY.length +
    (/^\s*:\s*(?=\{)/.exec(text.slice(at + KEY.length, at + 32))?.[0].length ?? -1e9)
  if (start < 0) return null
  let depth = 0
  for (let end = start; end < Math.min(text.length, start + USAGE_CHARACTERS_MAX); end++) {
    const code = text.charCodeAt(end)
    if (code === 0x7b) depth++
    else if (code === 0x7d && --depth === 0) {
      const value = jsonOf(text.slice(start, end + 1))
      return isRecord(value) ? value : null
    }
  }
  return null
}
