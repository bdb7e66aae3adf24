/**
 * Replaces the model's name in an answer when the engine uses another name (possibly a path) than the client.
 *
 * Only members `"model"` with exactly that value are replaced, at any depth. Quotes inside texts are escaped in
 * JSON, so texts never match.
 */
import { asciiJson } from '../../api/index.ts'
import { replacedSpans } from '../http/replaced-spans.ts'
import { asciiOf } from '../http/json-members.ts'
import type { Span } from '../http/json-members.ts'

const KEY = '"model"'

export class AnsweredModel {
  readonly #written: string
  readonly #shown: string

  constructor(nameAtEngine: string, shown: string) {
    this.#written = asciiJson(nameAtEngine)
    this.#shown = asciiJson(shown)
  }

  /** `text`: whole events, or a whole answer, with one character per byte. */
  inText(text: string): string {
    if (!text.includes(this.#written)) return text
    let result = ''
    let from = 0
    for (const { start, end } of this.#spans(text)) {
      result += text.slice(from, start) + this.#shown
      from = end
    }
    return result + text.slice(from)
  }

  inWhole(body: string | Uint8Array): string | Uint8Array {
    if (typeof body === 'string') return this.inText(body)
    // ASCII is unchanged, and every other byte becomes one character.
    const spans = this.#spans(asciiOf(body, 0, body.length))
    const text = this.#shown
    return spans.length === 0
      ? body
      : replacedSpans(
          body,
          spans.map((span) => ({ span, text })),
        )
  }

  #spans(text: string): readonly Span[] {
    const spans: Span[] = []
    for (let at = text.indexOf(KEY); at >= 0; at = text.indexOf(KEY, at + KEY.length)) {
      const start = valueStart(text, at + KEY.length)
      if (start < 0 || !text.startsWith(this.#written, start)) continue
      spans.push({ start, end: start + this.#written.length })
    }
    return spans
  }
}

/** The position after the colon; -1: there is none. */
function valueStart(text: string, from: number): number {
  let at = behindBlanks(text, from)
  if (text.charCodeAt(at) !== COLON) return -1
  at = behindBlanks(text, at + 1)
  return at
}

function behindBlanks(text: string, from: number): number {
  let at = from
  while (at < text.length && text.charCodeAt(at) <= BLANK) at++
  return at
}

const COLON = 0x3a
const BLANK = 0x20
