/**
 * Custom tools: their input is one text instead of JSON. For the model such a tool is a function with one parameter,
 * `input`; this file defines that function and converts its arguments back to text.
 */
import { z } from 'zod'

export const customToolSchema = z.looseObject({
  type: z.literal('custom'),
  name: z.string().min(1),
  description: z.string().nullish(),
  format: z
    .discriminatedUnion('type', [
      z.looseObject({ type: z.literal('text') }),
      z.looseObject({
        type: z.literal('grammar'),
        syntax: z.enum(['lark', 'regex']),
        definition: z.string().min(1),
      }),
    ])
    .nullish(),
})

type CustomTool = z.infer<typeof customToolSchema>

interface CustomToolFunction {
  readonly name: string
  readonly description: string | null | undefined
  readonly parameters: Record<string, unknown>
}

export function customToolFunction(tool: CustomTool): CustomToolFunction {
  return {
    name: tool.name,
    description: tool.description,
    parameters: {
      type: 'object',
      properties: { input: { type: 'string', ...formOf(tool.format) } },
      required: ['input'],
      additionalProperties: false,
    },
  }
}

/**
 * A Lark grammar is only shown to the model, because GBNF cannot enforce it; a constrained call reports that it was
 * ignored.
 */
function formOf(format: CustomTool['format']): Record<string, unknown> {
  if (format?.type !== 'grammar') return {}
  return format.syntax === 'regex' ? { pattern: format.definition } : { lark: format.definition }
}

const BEGIN = /^\s*\{\s*"input"\s*:\s*"/
const WHOLE_UNITS = /(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*/y

/** Decodes the text of `{"input":"…"}` while it is being generated. */
export class CustomToolInput {
  #json = ''
  #at = -1
  /** The complete text so far. */
  text = ''

  /** Returns the text added by these further arguments. */
  push(json: string): string {
    this.#json += json
    if (this.#at < 0) this.#at = BEGIN.exec(this.#json)?.[0].length ?? -1
    if (this.#at < 0) return ''
    WHOLE_UNITS.lastIndex = this.#at
    const piece = WHOLE_UNITS.exec(this.#json)?.[0] ?? ''
    // Half a surrogate pair waits for the other half.
    const whole = piece.replace(/\\u[dD][89abAB][0-9a-fA-F]{2}$|[\ud800-\udbff]$/, '')
    const text = decoded(whole)
    if (text === null) return ''
    this.#at += whole.length
    this.text += text
    return text
  }

  /** Arguments of any other form are returned unchanged. */
  end(): string {
    if (this.#at >= 0) return ''
    this.text = this.#json
    return this.#json
  }
}

function decoded(escaped: string): string | null {
  try {
    return JSON.parse(
      `"${escaped.replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t')}"`,
    ) as string
  } catch {
    return null
  }
}
