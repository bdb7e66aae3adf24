/**
 * Tool calls in the notation of each parser, with the deviations that models are known for: more or less whitespace,
 * Python literals instead of JSON, escaped characters, tags that are missing at the end.
 */
export interface RenderedCall {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
}

export interface Style {
  /** Blanks of JSON, or none. */
  readonly indent: number
  /** All characters beyond ASCII are escaped in JSON and Python. */
  readonly escapes: boolean
  /** Whitespace between tags. */
  readonly gap: '' | '\n' | '\n\n' | ' '
  /** `True`, `None` and single quotes for values that are not strings. */
  readonly pythonValues: boolean
  /** The last closing tags are missing. */
  readonly open: boolean
}

export interface Notation {
  /** The name in vLLM or SGLang. */
  readonly name: string
  readonly render: (calls: readonly RenderedCall[], style: Style) => string
  /** Strings stand without quotes between tags. */
  readonly tags?: readonly string[]
  /** One call only. */
  readonly single?: boolean
  /** Values in the notation are typed by the tool's schema, so types that are not in it are not kept. */
  readonly typed?: boolean
}

export function json(value: unknown, { indent, escapes }: Style): string {
  const text = JSON.stringify(value, null, indent)
  return escapes ? ascii(text) : text
}

function ascii(text: string): string {
  return text.replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** As Python's `repr` writes it. */
export function python(value: unknown, style: Style): string {
  if (value === null) return 'None'
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (typeof value === 'string') return pythonText(value, style)
  if (Array.isArray(value)) return `[${value.map((each) => python(each, style)).join(', ')}]`
  if (typeof value === 'object') {
    const members = Object.entries(value).map(
      ([key, each]) => `${pythonText(key, style)}: ${python(each, style)}`,
    )
    return `{${members.join(', ')}}`
  }
  return JSON.stringify(value)
}

function pythonText(value: string, { escapes }: Style): string {
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'"
  const body = Array.from(value, (char) => pythonChar(char, quote, escapes)).join('')
  return quote + body + quote
}

function pythonChar(char: string, quote: string, escapes: boolean): string {
  const code = char.codePointAt(0) ?? 0
  if (char === '\\' || char === quote) return `\\${char}`
  if (char === '\n') return '\\n'
  if (char === '\t') return '\\t'
  if (char === '\r') return '\\r'
  if (code < 0x20) return `\\x${code.toString(16).padStart(2, '0')}`
  if (!escapes || code < 0x80) return char
  if (code < 0x100) return `\\x${code.toString(16)}`
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, '0')}`
  return `\\U${code.toString(16).padStart(8, '0')}`
}

/** A value between tags: strings as they are. */
function plain(value: unknown, style: Style): string {
  if (typeof value === 'string') return value
  return style.pythonValues ? python(value, style) : json(value, style)
}

type Keys = readonly [name: string, args: string]
const object = ({ name, args }: RenderedCall, style: Style, [n, a]: Keys = ['name', 'arguments']) =>
  json({ [n]: name, [a]: args }, style)

/** Each call in tags of its own. */
const each =
  (open: string, close: string, keys?: Keys): Notation['render'] =>
  (calls, style) =>
    calls
      .map((call, index) => {
        const isLast = index === calls.length - 1
        const end = isLast && style.open ? '' : style.gap + close
        return open + style.gap + object(call, style, keys) + end
      })
      .join(style.gap)

/** A list in tags. */
const list =
  (open: string, close: string, keys?: Keys): Notation['render'] =>
  (calls, style) =>
    `${open}${style.gap}[${calls.map((call) => object(call, style, keys)).join(', ')}]${style.gap}${style.open ? '' : close}`

interface Tags {
  readonly section: readonly [string, string]
  readonly call: (name: string) => string
  readonly callEnd: string
  readonly parameter: (key: string, value: unknown) => string
  readonly parameterEnd: string
  /** Around the value. */
  readonly lines?: string
}

const tagged =
  ({ section, call, callEnd, parameter, parameterEnd, lines = '' }: Tags): Notation['render'] =>
  (calls, style) => {
    const { gap } = style
    const body = calls.map(({ name, args }) => {
      const members = Object.entries(args).map(
        ([key, value]) =>
          parameter(key, value) + lines + plain(value, style) + lines + parameterEnd + gap,
      )
      return call(name) + gap + members.join('') + callEnd + gap
    })
    return section[0] + gap + body.join('') + (style.open ? '' : section[1])
  }

const dsml = (head: string, name: string): Tags => ({
  section: [`<${head}${name}>`, `</${head}${name}>`],
  call: (tool) => `<${head}invoke name="${tool}">`,
  callEnd: `</${head}invoke>`,
  parameter: (key, value) =>
    `<${head}parameter name="${key}" string="${typeof value === 'string'}">`,
  parameterEnd: `</${head}parameter>`,
})
const xml = (section: readonly [string, string]): Tags => ({
  section,
  call: (tool) => `<invoke name="${tool}">`,
  callEnd: '</invoke>',
  parameter: (key) => `<parameter name="${key}">`,
  parameterEnd: '</parameter>',
})
const coder = (section: readonly [string, string]): Tags => ({
  section,
  call: (tool) => `<function=${tool}>`,
  callEnd: '</function>',
  parameter: (key) => `<parameter=${key}>`,
  parameterEnd: '</parameter>',
  lines: '\n',
})

/** Sections around each call, as Qwen's models write them. */
const coderEach: Notation['render'] = (calls, style) =>
  calls
    .map((call, index) =>
      tagged(coder(['<tool_call>', '</tool_call>']))([call], {
        ...style,
        open: style.open && index === calls.length - 1,
      }),
    )
    .join(style.gap)

const keyed =
  (suffix: string, separator: string, around: readonly [string, string]): Notation['render'] =>
  (calls, style) => {
    const { gap } = style
    const body = calls.map(({ name, args }, index) => {
      const members = Object.entries(args).map(
        ([key, value]) =>
          `<arg_key${suffix}>${key}</arg_key${suffix}>${gap}<arg_value${suffix}>${plain(value, style)}</arg_value${suffix}>${gap}`,
      )
      const isOpen = style.open && index === calls.length - 1
      return `<tool_call${suffix}>${name}${separator}${gap}${members.join('')}${isOpen ? '' : `</tool_call${suffix}>`}`
    })
    return around[0] + body.join(gap) + (style.open ? '' : around[1])
  }

const pythonCall = ({ name, args }: RenderedCall, style: Style): string =>
  `${name}(${Object.entries(args)
    .map(([key, value]) => `${key}=${python(value, style)}`)
    .join(', ')})`
const pythonList =
  (open: string, close: string): Notation['render'] =>
  (calls, style) =>
    `${open}[${calls.map((call) => pythonCall(call, style)).join(', ')}]${style.open ? '' : close}`

const gemma =
  (open: string, close: string, quote: string): Notation['render'] =>
  (calls, style) => {
    const value = (of: unknown): string => {
      if (typeof of === 'string') return quote + of + quote
      if (Array.isArray(of)) return `[${of.map(value).join(',')}]`
      if (typeof of === 'object' && of !== null) {
        const members = Object.entries(of).map(([key, one]) => `${key}:${value(one)}`)
        return `{${members.join(',')}}`
      }
      return String(of)
    }
    return calls
      .map(({ name, args }, index) => {
        const end = style.open && index === calls.length - 1 ? '' : close
        return `${open}call:${name}${value(args)}${end}`
      })
      .join('')
  }

const marked =
  (
    section: readonly [string, string],
    call: (name: string, index: number) => string,
    end: string,
  ): Notation['render'] =>
  (calls, style) => {
    const body = calls.map(({ name, args }, index) => call(name, index) + json(args, style) + end)
    return section[0] + body.join('') + (style.open ? '' : section[1])
  }

const plamo = (name: string) => `<|plamo:${name}:plamo|>`
const V3 = ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'] as const
const HERMES = each('<tool_call>', '</tool_call>')
const CODER_TAGS = ['</parameter>', '<parameter=', '</function>']
const ARG_TAGS = ['</arg_value']

export const NOTATIONS: readonly Notation[] = [
  ...['hermes', 'qwen', 'qwen25', 'qwen3_json', 'trinity', 'granite4', 'ernie45'].map((name) => ({
    name,
    render: HERMES,
  })),
  { name: 'longcat', render: each('<longcat_tool_call>', '</longcat_tool_call>') },
  { name: 'nemotron_deci', render: list('<TOOLCALL>', '</TOOLCALL>') },
  { name: 'jamba', render: list('<tool_calls>', '</tool_calls>') },
  { name: 'hunyuan_a13b', render: list('<tool_calls>', '</tool_calls>') },
  { name: 'xlam', render: list('', '') },
  { name: 'granite', render: list('<|tool_call|>', '') },
  { name: 'granite', render: list('<tool_call>', '') },
  { name: 'granite-20b-fc', render: each('<function_call>', '') },
  { name: 'phi4_mini_json', render: list('functools', '') },
  {
    name: 'internlm',
    render: each('<|action_start|><|plugin|>', '<|action_end|>', ['name', 'parameters']),
    single: true,
  },
  {
    name: 'cohere_command3',
    render: list('<|START_ACTION|>', '<|END_ACTION|>', ['tool_name', 'parameters']),
  },
  { name: 'mistral', render: list('[TOOL_CALLS]', '') },
  {
    name: 'mistral',
    render: (calls, style) =>
      calls.map(({ name, args }) => `[TOOL_CALLS]${name}[ARGS]${json(args, style)}`).join(''),
  },
  {
    name: 'llama3_json',
    render: (calls, style) =>
      calls.map((call) => object(call, style, ['name', 'parameters'])).join('; '),
  },
  {
    name: 'llama4_json',
    render: (calls, style) =>
      `<|python_tag|>${calls.map((call) => object(call, style, ['name', 'parameters'])).join('; ')}`,
  },
  {
    name: 'apertus',
    render: (calls, style) =>
      `<|tools_prefix|>[${calls.map(({ name, args }) => json({ [name]: args }, style)).join(', ')}]${style.open ? '' : '<|tools_suffix|>'}`,
  },
  { name: 'gigachat3', render: each('<|function_call|>', ''), single: true },
  {
    name: 'dots',
    render: tagged(xml(['<dots_function_call>', '</dots_function_call>'])),
    tags: ['</parameter>', '</invoke>'],
    typed: true,
  },
  {
    name: 'deepseek_v3',
    render: marked(
      V3,
      (name) => `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n`,
      '\n```<｜tool▁call▁end｜>',
    ),
  },
  {
    name: 'deepseek_v31',
    render: marked(
      V3,
      (name) => `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>`,
      '<｜tool▁call▁end｜>',
    ),
  },
  {
    name: 'kimi_k2',
    render: marked(
      ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
      (name, index) => `<|tool_call_begin|>functions.${name}:${index}<|tool_call_argument_begin|>`,
      '<|tool_call_end|>',
    ),
  },
  {
    name: 'plamo3',
    render: marked(
      [plamo('begin_tool_requests'), plamo('end_tool_requests')],
      (name) =>
        `${plamo('begin_tool_request')}${plamo('begin_tool_name')}${name}${plamo('end_tool_name')}${plamo('begin_tool_arguments')}<|plamo:constrain|>json<|plamo:msg|>`,
      plamo('end_tool_arguments') + plamo('end_tool_request'),
    ),
  },
  {
    name: 'deepseek_v32',
    render: tagged(dsml('｜DSML｜', 'function_calls')),
    tags: ['</｜DSML｜'],
  },
  { name: 'deepseek_v4', render: tagged(dsml('｜DSML｜', 'tool_calls')), tags: ['</｜DSML｜'] },
  { name: 'deepseek_v41', render: tagged(dsml('｜DSML｜ ', 'calls')), tags: ['</｜DSML｜'] },
  { name: 'gigachat35', render: tagged(dsml('｜GCML｜', 'tool_calls')), tags: ['</｜GCML｜'] },
  ...['qwen3_coder', 'qwen3_xml', 'mimo', 'step3p5', 'step5', 'nanbeige', 'nemotron_nano'].map(
    (name) => ({
      name,
      render: coderEach,
      tags: CODER_TAGS,
      typed: true,
    }),
  ),
  {
    name: 'qwen3_coder',
    render: (calls: readonly RenderedCall[], style: Style) =>
      tagged(coder(['', '</tool_call>']))(calls, style),
    tags: CODER_TAGS,
    typed: true,
    single: true,
  },
  {
    name: 'seed_oss',
    render: tagged({ ...coder(['<seed:tool_call>', '</seed:tool_call>']), lines: '' }),
    tags: CODER_TAGS,
    typed: true,
    single: true,
  },
  {
    name: 'minimax_m2',
    render: tagged(xml(['<minimax:tool_call>', '</minimax:tool_call>'])),
    tags: ['</parameter>'],
    typed: true,
  },
  {
    name: 'minicpm5',
    render: (calls, style) =>
      calls
        .map(({ name, args }) => {
          const members = Object.entries(args).map(([key, value]) => {
            const text = plain(value, style)
            const isText = typeof value === 'string'
            return `<param name="${key}">${isText ? `<![CDATA[${text}]]>` : text}</param>${style.gap}`
          })
          return `<function name="${name}">${style.gap}${members.join('')}</function>`
        })
        .join(style.gap),
    tags: ['<', '&', ']]>'],
    typed: true,
  },
  {
    name: 'step3',
    render: (calls: readonly RenderedCall[], style: Style) => {
      const inner = tagged({
        section: ['', ''],
        call: (tool) =>
          `<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="${tool}">`,
        callEnd: '</steptml:invoke><｜tool_call_end｜>',
        parameter: (key) => `<steptml:parameter name="${key}">`,
        parameterEnd: '</steptml:parameter>',
      })(calls, style)
      return `<｜tool_calls_begin｜>${inner}${style.open ? '' : '<｜tool_calls_end｜>'}`
    },
    tags: ['</steptml:'],
    typed: true,
  },
  ...['glm45', 'glm47', 'glm', 'poolside_v1', 'spark25'].map((name) => ({
    name,
    render: keyed('', '\n', ['', '']),
    tags: ARG_TAGS,
    typed: true,
  })),
  { name: 'ling3', render: keyed('', '', ['', '']), tags: ARG_TAGS, typed: true },
  {
    name: 'hy_v3',
    render: keyed('', '<tool_sep>', ['<tool_calls>', '</tool_calls>']),
    tags: ARG_TAGS,
    typed: true,
  },
  {
    name: 'hy_v4',
    render: keyed('', '', ['<tool_calls>', '</tool_calls>']),
    tags: ARG_TAGS,
    typed: true,
  },
  { name: 'pythonic', render: pythonList('', '') },
  { name: 'llama4_pythonic', render: pythonList('<|python_start|>', '<|python_end|>') },
  { name: 'lfm2', render: pythonList('<|tool_call_start|>', '<|tool_call_end|>') },
  {
    name: 'olmo3',
    render: (calls, style) =>
      `<function_calls>${calls.map((call) => pythonCall(call, style)).join('\n')}${style.open ? '' : '</function_calls>'}`,
  },
  { name: 'gemma4', render: gemma('<|tool_call>', '<tool_call|>', '<|"|>'), tags: ['<|"|>'] },
  {
    name: 'functiongemma',
    render: gemma('<start_function_call>', '<end_function_call>', '<escape>'),
    tags: ['<escape>'],
  },
  {
    name: 'inkling',
    render: (calls, style) =>
      calls
        .map(
          (call) =>
            `<|message_model|>${call.name}<|content_invoke_tool_json|>${object(call, style, ['name', 'args'])}<|end_message|>`,
        )
        .join(''),
  },
  {
    name: 'openai',
    render: (calls, style) =>
      calls
        .map(
          ({ name, args }) =>
            `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(args, style)}<|call|>`,
        )
        .join('<|start|>assistant'),
  },
]
