/**
 * Limits the JSON that a chat template has to render: messages, arguments of tool calls, tools, template variables.
 * Rendering holds up the event loop, costs microseconds per value, and is repeated if the template wants messages in
 * another form. So the limit is lower than that of a body; it is for all of them together, because a request may have
 * many tool calls. Arguments usually come as texts of JSON, which the limits of a body do not see.
 */
import {
  BatonError,
  isRecord,
  JSON_DEPTH_MAX,
  parseExactJson,
  sizeOfJson,
} from '../../base/index.ts'

export const RENDERED_VALUES_MAX = 100_000
/** Shorter texts cannot be nested too deeply or have many values. */
const SMALL_CHARACTERS = JSON_DEPTH_MAX
const BEGINS_OBJECT = /^[ \t\r\n]*\{/
const utf8 = new TextEncoder()

/** For one request. */
export class RenderedJson {
  #left = RENDERED_VALUES_MAX

  /** Counts a list or an object with all its values. `param`: the client's field. */
  add(value: unknown, param: string): void {
    this.spend(1, param)
    if (Array.isArray(value)) {
      for (const item of value as unknown[]) this.add(item, param)
    } else if (isRecord(value)) {
      for (const key of Object.keys(value)) this.add(value[key], param)
    }
  }

  spend(values: number, param: string): void {
    this.#left -= values
    if (this.#left < 0) throw tooMany(param)
  }

  /** The object that a text of JSON has, or the text itself: a model may have written anything. */
  objectIn(text: string, param: string): unknown {
    const value = this.#mayBeObject(text, param) ? parsed(text) : null
    if (!isRecord(value)) return text
    this.add(value, param)
    return value
  }

  /** Measured before it is parsed: parsing costs time and memory per value, too. */
  #mayBeObject(text: string, param: string): boolean {
    if (!BEGINS_OBJECT.test(text)) return false
    if (text.length <= SMALL_CHARACTERS) return true
    const { isClosed, depth, numbers, values } = sizeOfJson(utf8.encode(text))
    if (!isClosed) return false
    if (depth > JSON_DEPTH_MAX) {
      throw refused(
        param,
        `the arguments of a tool call are nested more than ${JSON_DEPTH_MAX} deep`,
      )
    }
    if (numbers + values > this.#left) throw tooMany(param)
    return true
  }
}

function parsed(text: string): unknown {
  try {
    return parseExactJson(text)
  } catch {
    return null
  }
}

function tooMany(param: string): BatonError {
  return refused(
    param,
    `messages, arguments of tool calls, tools and template variables have more than ${RENDERED_VALUES_MAX} values`,
  )
}

function refused(param: string, what: string): BatonError {
  return new BatonError('request.invalid_argument', `\`${param}\`: ${what}`, { data: { param } })
}
