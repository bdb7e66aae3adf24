/** The JSON schema of a forced tool call: `{"name": …, "arguments": {…}}` of one of the tools. */
import { isRecord } from '../../base/index.ts'
import type { ChatTool } from './chat-tools.ts'

export function forcedCallSchema(tools: readonly ChatTool[]): unknown {
  const isOne = tools.length === 1
  const calls = tools.map((tool, index) => ({
    type: 'object',
    properties: {
      name: { const: tool.function.name },
      arguments: objectUnder(
        `#${isOne ? '' : `/anyOf/${index}`}/properties/arguments`,
        tool.function.parameters ?? NO_PARAMETERS,
      ),
    },
    required: ['name', 'arguments'],
    additionalProperties: false,
  }))
  return isOne ? calls[0] : { anyOf: calls }
}

/** Arguments are an object, whatever else the tool's schema allows: parsers read no other call. */
function objectUnder(place: string, schema: Readonly<Record<string, unknown>>): unknown {
  if (schema['type'] === 'object') return withRefsUnder(place, schema)
  if (Object.hasOwn(schema, 'properties') && schema['type'] === undefined)
    return withRefsUnder(place, { ...schema, type: 'object' })
  return { allOf: [withRefsUnder(`${place}/allOf/0`, schema), { type: 'object' }] }
}

/** Schema of a tool without parameters. */
const NO_PARAMETERS = { type: 'object', additionalProperties: false }

/** Keywords whose values are data, not schemas. */
const DATA = new Set(['enum', 'const', 'default', 'examples', 'example'])

/** Keywords whose keys are names of the client, not keywords: a property may be called `default`. */
const NAMES = new Set(['properties', 'patternProperties', '$defs', 'definitions'])

/** Adjusts `$ref` pointers of a schema that is embedded in another one. */
function withRefsUnder(place: string, schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((entry) => withRefsUnder(place, entry))
  if (!isRecord(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if (DATA.has(key)) return [key, value]
      if (NAMES.has(key) && isRecord(value)) {
        const named = Object.entries(value).map(([name, each]) => [
          name,
          withRefsUnder(place, each),
        ])
        return [key, Object.fromEntries(named)]
      }
      const isPointer = key === '$ref' && typeof value === 'string' && /^#(\/|$)/.test(value)
      return [key, isPointer ? place + value.slice(1) : withRefsUnder(place, value)]
    }),
  )
}
