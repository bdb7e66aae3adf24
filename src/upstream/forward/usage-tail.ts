/**
 * The usage that an engine reports, found in the end of its answer (and in the beginning, where the Anthropic API says how
 * long the prompt is) without reading the rest.
 */
import { isRecord } from '../../base/index.ts'
import { usageOf } from '../../request/index.ts'
import type { Usage } from '../../request/index.ts'
import { jsonOf } from '../client/fetch-json.ts'

const TAIL_CHARACTERS = 8192
const HEAD_CHARACTERS = 4096
const USAGE_CHARACTERS_MAX = 4096
const KEY = '"usage"'

export class UsageTail {
  #head = ''
  #tail = ''
  /** The piece before the tail: together they are long enough. */
  #before = ''

  push(text: string): void {
    if (this.#head.length < HEAD_CHARACTERS) this.#head += text.slice(0, HEAD_CHARACTERS)
    if (this.#tail.length >= TAIL_CHARACTERS) {
      this.#before = this.#tail
      this.#tail = ''
    }
    this.#tail += text
  }

  /** Null: the engine has not said. */
  usage(): Usage | null {
    const tail = this.#before + this.#tail
    const last = lastUsage(tail)
    const first = firstUsage(this.#head)
    if (last === null && first === null) return null
    const prompt = numberIn(last, PROMPT) ?? numberIn(first, PROMPT) ?? 0
    const completion = numberIn(last, COMPLETION) ?? numberIn(first, COMPLETION) ?? 0
    return usageOf(prompt, completion, cachedIn(last) ?? cachedIn(first))
  }
}

/** Of an answer that is whole. */
export function usageOfWhole(body: Buffer): Usage | null {
  const tail = new UsageTail()
  tail.push(body.toString('latin1'))
  return tail.usage()
}

type Fields = Readonly<Record<string, unknown>>

const PROMPT = ['prompt_tokens', 'input_tokens']
const COMPLETION = ['completion_tokens', 'output_tokens']
const DETAILS = ['prompt_tokens_details', 'input_tokens_details']

function numberIn(fields: Fields | null, names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = fields?.[name]
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  }
  return undefined
}

function cachedIn(fields: Fields | null): number | undefined {
  for (const name of DETAILS) {
    const details = fields?.[name]
    if (isRecord(details)) return numberIn(details, ['cached_tokens'])
  }
  return numberIn(fields, ['cache_read_input_tokens'])
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

/** Null for what is in a string, is `null`, or is cut off. */
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
