/**
 * Tools of a chat: functions, and custom tools, whose input is one text. For the model, grammars and parsers a custom
 * tool is a function with one parameter; only the client's side has a form of its own.
 */
import { z } from 'zod'
import { customToolFunction } from './custom-tool.ts'
import { invalid } from './generation-fields.ts'
import { fieldsSchema } from './record-schema.ts'

const TOOLS_MAX = 1536
export const FUNCTION_NAME_MAX = 96

const functionTool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: z.string().min(1).max(FUNCTION_NAME_MAX),
    description: z.string().nullish(),
    parameters: fieldsSchema.nullish(),
    strict: z.boolean().nullish(),
  }),
})

const customTool = z.looseObject({
  type: z.literal('custom'),
  custom: z.looseObject({
    name: z.string().min(1).max(FUNCTION_NAME_MAX),
    description: z.string().nullish(),
    format: z
      .discriminatedUnion('type', [
        z.looseObject({ type: z.literal('text') }),
        z.looseObject({
          type: z.literal('grammar'),
          grammar: z.looseObject({
            syntax: z.enum(['lark', 'regex']),
            definition: z.string().min(1),
          }),
        }),
      ])
      .nullish(),
  }),
})

const toolSchema = z.discriminatedUnion('type', [functionTool, customTool])

export const toolsSchema = z.array(toolSchema).max(TOOLS_MAX)

const named = z.looseObject({ name: z.string().min(1) })
const allowedTool = z.union([z.looseObject({ function: named }), z.looseObject({ custom: named })])

export const toolChoiceSchema = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    z.looseObject({ type: z.literal('function'), function: named }),
    z.looseObject({ type: z.literal('custom'), custom: named }),
    z.looseObject({
      type: z.literal('allowed_tools'),
      allowed_tools: z.looseObject({
        mode: z.enum(['auto', 'required']),
        tools: z.array(allowedTool).min(1),
      }),
    }),
  ],
  'must be "none", "auto", "required", a tool by name, or allowed tools',
)

export interface ChatTool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description?: string
    readonly parameters?: Readonly<Record<string, unknown>>
  }
}

type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string }

export interface OfferedTools {
  readonly tools: readonly ChatTool[]
  readonly toolChoice: ToolChoice
  /** True if a tool that may be called requires that its schema is enforced exactly (`strict`). */
  readonly isStrict: boolean
  /** Names of the tools with text input. */
  readonly customTools: ReadonlySet<string>
}

interface ToolFields {
  readonly tools?: z.infer<typeof toolsSchema> | undefined
  readonly tool_choice?: z.infer<typeof toolChoiceSchema> | undefined
}

const NO_NAMES: ReadonlySet<string> = new Set()

/** `allowed_tools` restricts the tools without changing the list that the client sends. */
export function toolsOf({ tools = [], tool_choice: choice }: ToolFields): OfferedTools {
  const offered = isAllowedTools(choice)
    ? allowed(tools, choice.allowed_tools.tools.map(nameOf))
    : tools
  const custom = offered.filter(({ type }) => type === 'custom').map(toolName)
  const toolChoice = toolChoiceOf(tools.map(toolName), choice)
  return {
    tools: offered.map(chatTool),
    toolChoice,
    isStrict: offered.some(
      (tool) =>
        tool.type === 'function' &&
        tool.function.strict === true &&
        (typeof toolChoice === 'string' || toolChoice.name === tool.function.name),
    ),
    customTools: custom.length === 0 ? NO_NAMES : new Set(custom),
  }
}

type Choice = ToolFields['tool_choice']
type AllowedTools = Extract<Choice, { type: 'allowed_tools' }>
type Tool = z.infer<typeof toolSchema>

function isAllowedTools(choice: Choice): choice is AllowedTools {
  return typeof choice === 'object' && choice.type === 'allowed_tools'
}

function allowed(tools: readonly Tool[], names: readonly string[]): readonly Tool[] {
  const missing = names.find((name) => !tools.some((tool) => toolName(tool) === name))
  if (missing !== undefined) throw invalid('tool_choice', `no tool is called "${missing}"`)
  return tools.filter((tool) => names.includes(toolName(tool)))
}

function toolChoiceOf(names: readonly string[], choice: Choice): ToolChoice {
  if (choice === undefined) return names.length > 0 ? 'auto' : 'none'
  if (isAllowedTools(choice)) return choice.allowed_tools.mode
  if (typeof choice !== 'string') {
    const name = nameOf(choice)
    if (!names.includes(name)) throw invalid('tool_choice', `no tool is called "${name}"`)
    return { name }
  }
  if (choice === 'required' && names.length === 0) {
    throw invalid('tool_choice', '"required" needs `tools`')
  }
  return choice
}

function nameOf(tool: z.infer<typeof allowedTool>): string {
  return isFunction(tool) ? tool.function.name : tool.custom.name
}

function isFunction(
  tool: z.infer<typeof allowedTool>,
): tool is Extract<z.infer<typeof allowedTool>, { function: unknown }> {
  return 'function' in tool
}

function toolName(tool: Tool): string {
  return tool.type === 'function' ? tool.function.name : tool.custom.name
}

function chatTool(tool: Tool): ChatTool {
  if (tool.type === 'custom') {
    const { name, description, format } = tool.custom
    const flat = format?.type === 'grammar' ? { type: format.type, ...format.grammar } : undefined
    return {
      type: 'function',
      function: functionFields(
        customToolFunction({ type: 'custom', name, description, format: flat }),
      ),
    }
  }
  return { type: 'function', function: functionFields(tool.function) }
}

interface FunctionFields {
  readonly name: string
  readonly description?: string | null | undefined
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined
}

function functionFields({ name, description, parameters }: FunctionFields): ChatTool['function'] {
  return {
    name,
    ...(description == null ? {} : { description }),
    ...(parameters == null ? {} : { parameters }),
  }
}
