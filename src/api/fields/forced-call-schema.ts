/** The JSON schema of a call that must be made: `{"name": …, "arguments": {…}}` of one of the tools. */
import { isRecord } from '../../base/index.ts'
import type { ChatTool } from './chat-tools.ts'

export function forcedCallSchema(tools: readonly ChatTool[]): unknown {
  const isOne = tools.length === 1
  const calls = tools.map((tool, index) => ({
    type: 'object',
    properties: {
      name: { const: tool.function.name },
      arguments: withRefsUnder(
        `#${isOne ? '' : `/anyOf/${index}`}/properties/arguments`,
        tool.function.parameters ?? NO_PARAMETERS,
      ),
    },
    required: ['name', 'arguments'],
    additionalProperties: false,
  }))
  return isOne ? calls[0] : { anyOf: calls }
}

/** A tool without parameters takes none. */
const NO_PARAMETERS = { type: 'object', additionalProperties: false }

/** Keywords whose values are data. */
const DATA = new Set(['enum', 'const', 'default', 'examples', 'example'])

/** A schema that is put into another one refers to what is now further down. */
function withRefsUnder(place: string, schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((entry) => withRefsUnder(place, entry))
  if (!isRecord(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if (DATA.has(key)) return [key, value]
      const isPointer = key === '$ref' && typeof value === 'string' && value.startsWith('#')
      return [key, isPointer ? place + value.slice(1) : withRefsUnder(place, value)]
    }),
  )
}
