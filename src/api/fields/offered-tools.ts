/**
 * Tools of the Responses API as offered to the model. Tools in a namespace become functions named `namespace__name`.
 * Tools that OpenAI runs itself are ignored (Codex always sends web search): Baton does not run them, and a model
 * that does not see them cannot call them.
 */
import { z } from 'zod'
import { customToolSchema } from './custom-tool.ts'
import { fieldsSchema } from './record-schema.ts'

const functionTool = z.looseObject({
  type: z.literal('function'),
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: fieldsSchema.nullish(),
  strict: z.boolean().nullish(),
})
const own = z.discriminatedUnion('type', [functionTool, customToolSchema])

const namespaceTool = z.looseObject({
  type: z.literal('namespace'),
  name: z.string().min(1),
  description: z.string().nullish(),
  tools: z.array(own).min(1),
})
const hostedTool = z.looseObject({
  type: z.enum(['web_search', 'web_search_preview', 'image_generation']),
})

export const toolSchema = z.discriminatedUnion(
  'type',
  [functionTool, customToolSchema, namespaceTool, hostedTool],
  { error: 'only tools of type "function", "custom" and "namespace" are supported' },
)

export type OwnTool = z.infer<typeof own>

export interface ToolPlace {
  readonly namespace: string
  readonly name: string
}

export interface OfferedTools {
  readonly tools: readonly OwnTool[]
  /** By the name that the model knows: namespace and name of a tool in a namespace. */
  readonly places: ReadonlyMap<string, ToolPlace>
}

export function offeredTools(tools: readonly z.infer<typeof toolSchema>[]): OfferedTools {
  const places = new Map<string, ToolPlace>()
  const offered = tools.flatMap((tool): readonly OwnTool[] => {
    if (tool.type === 'function' || tool.type === 'custom') return [tool]
    if (tool.type !== 'namespace') return []
    const { name: namespace } = tool
    return tool.tools.map((each) => {
      const name = nameInSpace(namespace, each.name)
      places.set(name, { namespace, name: each.name })
      return { ...each, name }
    })
  })
  return { tools: offered, places }
}

/** The name of the tool for the model. */
export function nameInSpace(namespace: unknown, name: unknown): string {
  return typeof namespace === 'string' && namespace !== ''
    ? `${namespace}__${String(name)}`
    : String(name)
}
