/** Builders for tool call formats of the same kind. */
import { ArgKeyCallReader } from '../output/arg-key-call-reader.ts'
import type { ArgKeyCallForm } from '../output/arg-key-call-reader.ts'
import { EitherCallReader } from '../output/either-call-reader.ts'
import { JsonCallReader } from '../output/json-call-reader.ts'
import { LiteralCallReader } from '../output/literal-call-reader.ts'
import type { LiteralCallForm } from '../output/literal-call-reader.ts'
import { PYTHON, gemmaLanguage } from '../output/literal-language.ts'
import { MarkedCallReader } from '../output/marked-call-reader.ts'
import type { MarkedCallForm } from '../output/marked-call-reader.ts'
import { TaggedCallReader } from '../output/tagged-call-reader.ts'
import type { TaggedCallForm } from '../output/tagged-call-reader.ts'
import type { ToolFormat } from '../output/tool-call-parser.ts'
import { WrappedCallReader } from '../output/wrapped-call-reader.ts'

type CreateReader = ToolFormat['createReader']
type Readers = { readonly createReader: CreateReader }

export const section = (open: string, close: string | null) => ({ open, close })

/** Without any marker, JSON that looks like a call is one only if such a tool is offered. */
export const createJsonReader: CreateReader = ({ open }, tools) =>
  open === ''
    ? new JsonCallReader({ isCall: (name) => tools.some((tool) => tool.name === name) })
    : new JsonCallReader()

export const literal = (form: LiteralCallForm): Readers => ({
  createReader: ({ open }, tools) =>
    new LiteralCallReader(form, (name) => open !== '' || tools.some((tool) => tool.name === name)),
})

export const marked = (form: MarkedCallForm): Readers => ({
  createReader: ({ close }) => new MarkedCallReader(form, close),
})

export const tagged = (form: TaggedCallForm): Readers => ({
  createReader: (_section, tools) => new TaggedCallReader(form, tools),
})

/** The section begins with the tag of its first call, which also tells whether the tool is offered. */
export const taggedFrom = (opening: string, form: TaggedCallForm): Readers => ({
  createReader: ({ open }, tools) =>
    new TaggedCallReader(form, tools, open === opening ? opening : ''),
})

export const argKeys = (form: ArgKeyCallForm): Readers => ({
  createReader: ({ close }, tools) => new ArgKeyCallReader(form, tools, close ?? ''),
})

/** In a section with several calls each has its own tags; a single call is the section itself. */
export const wrapped = (call: readonly [open: string, close: string], of: Readers): Readers => ({
  createReader: (opened, tools) => {
    const [open, close] = call
    const inner = () => of.createReader({ open, close }, tools)
    if (opened.open === open) return inner()
    return new WrappedCallReader({ open, close, createReader: inner })
  },
})

/** Arguments as JSON, or in the notation of the format. */
export const jsonOr = (of: Readers): Readers => ({
  createReader: (opened, tools) => new EitherCallReader(() => of.createReader(opened, tools)),
})

/** Models of these families sometimes omit their tags; then the call must name an offered tool. */
export const jsonIn = (open: string, close: string | null): ToolFormat => ({
  sections: [section(open, close)],
  bare: bareJson,
  createReader: createJsonReader,
})

const PYTHON_CALLS: LiteralCallForm = {
  language: PYTHON,
  head: /^([A-Za-z_][\w.]*)\s*\(/,
  headBegin: /^[A-Za-z_][\w.]*\s*$/,
}

export const pythonIn = (open: string, close: string): ToolFormat => ({
  sections: [section(open, close)],
  bare: barePython,
  ...literal(PYTHON_CALLS),
})

export const gemmaIn = (
  open: string,
  close: string,
  quote: string,
  hasBareTexts = false,
): ToolFormat => ({
  sections: [section(open, close)],
  innerMarkers: [quote],
  ...literal({
    language: gemmaLanguage(quote, hasBareTexts),
    head: /^call:\s*([\w.-]+)\s*\{/,
    headBegin: /^(?:c|ca|cal|call|call:\s*[\w.-]*\s*)$/,
  }),
})

/** The markup of DeepSeek since 3.2, and of models that adopted it; since 4.1 each tag name is preceded by a blank. */
export const markupOf = (mark: string, blank: '' | ' ', calls: readonly string[]): ToolFormat => {
  const head = `${mark}${blank}`
  const opening = `<${head}invoke`
  return {
    // The models sometimes omit the tags of the section.
    sections: [
      ...calls.map((name) => section(`<${head}${name}>`, `</${head}${name}>`)),
      section(opening, null),
    ],
    innerMarkers: [mark],
    ...taggedFrom(opening, {
      call: new RegExp(`^<${head}invoke\\s+name="([^"]+)"\\s*/?>$`),
      callEnd: `</${head}invoke>`,
      parameter: new RegExp(
        `^<${head}parameter\\s+name="([^"]+)"(?:\\s+string="(true|false)")?\\s*>$`,
      ),
      parameterEnd: `</${head}parameter>`,
      trimsLineBreaks: false,
      sectionEnds: calls.map((name) => `</${head}${name}>`),
    }),
  }
}

const FIRST_KEYS = new Set([
  'name',
  'tool_name',
  'tool_call_id',
  'type',
  'function',
  'parameters',
  'arguments',
  'id',
])

/** An object, or a list of objects, that begins with a field of a call. */
export function bareJson(begin: string): 'yes' | 'no' | 'undecided' {
  if (/^\s*(?:\[\s*)?(?:\{\s*(?:"\w{0,20})?)?$/.test(begin)) return 'undecided'
  const key = /^\s*(?:\[\s*)?\{\s*"(\w{1,20})"/.exec(begin)?.[1]
  return key !== undefined && FIRST_KEYS.has(key) ? 'yes' : 'no'
}

/** A list that begins with a call. */
function barePython(begin: string): 'yes' | 'no' | 'undecided' {
  if (/^\s*(?:\[\s*(?:[A-Za-z_][\w.]{0,100})?)?$/.test(begin)) return 'undecided'
  return /^\s*\[\s*[A-Za-z_][\w.]{0,100}\(/.test(begin) ? 'yes' : 'no'
}
