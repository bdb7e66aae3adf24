/**
 * Limits the JSON that a chat template has to render: messages, arguments of tool calls, tools, template variables.
 * Rendering holds up the event loop, costs microseconds per value, and is repeated if the template wants messages in
 * another form. So the limit is lower than that of a body; it is for all of them together, because a request may have
 * many tool calls. Arguments usually come as texts of JSON, which the limits of a body do not see.
 */
import { BatonError, isRecord, JSON_DEPTH_MAX, objectInJson } from '../../base/index.ts'

const RENDERED_VALUES_MAX = 100_000

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

  /** The object that a text of JSON has, or the text itself. */
  objectIn(text: string, param: string): unknown {
    const value = objectInJson(text, ({ depth, numbers, values }) => {
      if (depth > JSON_DEPTH_MAX) {
        throw refused(
          param,
          `the arguments of a tool call are nested more than ${JSON_DEPTH_MAX} deep`,
        )
      }
      if (numbers + values > this.#left) throw tooMany(param)
      return true
    })
    if (value === null) return text
    this.add(value, param)
    return value
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
