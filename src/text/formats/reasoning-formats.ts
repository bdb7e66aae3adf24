/** The reasoning formats, by the names that are in common use. */
import type { ThoughtForm } from '../gbnf/model-output-gbnf.ts'
import { AnswerTagsParser } from '../output/answer-tags-parser.ts'
import { HarmonyParser } from '../channels/harmony-parser.ts'
import { DroppedMarkersParser } from '../output/dropped-markers-parser.ts'
import type { OutputEvent, OutputParser } from '../output/output-event.ts'
import { REASONING_ALIASES as ALIASES } from './parser-aliases.ts'
import { createToolCallParser } from './tool-formats.ts'
import { hunyuanSuffixOf, parserKey, suffixOf } from './parser-key.ts'
import { ReasoningParser, ReasoningTags } from '../output/reasoning-parser.ts'

interface ReasoningFormat {
  readonly tags: ReasoningTags
  /**
   * Whether the output usually begins inside reasoning, because the template writes the opening tag or the model
   * omits it.
   */
  readonly startsInside: boolean
  /** The model always writes its opening tag: unless the prompt ends with it, the output begins outside reasoning. */
  readonly writesOpening?: true
  /** A tag around the answer, which is removed. */
  readonly answerTag?: string
  /** Markers around the answer that are removed, and the control tokens that they consist of. */
  readonly dropped?: readonly string[]
  readonly droppedTokens?: readonly string[]
}

const thinkTags = new ReasoningTags('<think>', '</think>')
const kimiTags = new ReasoningTags('◁think▷', '◁/think▷')
const mistralTags = new ReasoningTags('[THINK]', '[/THINK]', { breaks: ['[TOOL_CALLS]'] })
const minimaxTags = new ReasoningTags('<mm:think>', '</mm:think>')
const gemmaTags = new ReasoningTags('<|channel>thought', '<channel|>', {
  tokens: ['<|channel>', '<channel|>'],
})
const graniteTags = new ReasoningTags(
  ['Here is my thought process:', "Here's my thought process:"],
  ['Here is my response:', "Here's my response:"],
)
const seedTags = new ReasoningTags('<seed:think>', '</seed:think>')
const longcatTags = new ReasoningTags('<longcat_think>', '</longcat_think>')
const COMMAND_ANSWER = [
  '<|START_TEXT|>',
  '<|END_TEXT|>',
  '<|START_RESPONSE|>',
  '<|END_RESPONSE|>',
] as const
const commandTags = new ReasoningTags('<|START_THINKING|>', '<|END_THINKING|>', {
  breaks: ['<|START_TEXT|>', '<|START_RESPONSE|>', '<|START_ACTION|>'],
})
/** Tool calls appear inside the reasoning. */
const apertusTags = new ReasoningTags('<|inner_prefix|>', '<|inner_suffix|>', {
  breaks: ['<|tools_prefix|>'],
})
/** One pair of tags per reasoning effort. */
const horizonTags = new ReasoningTags(
  ['<ifm|think>', '<ifm|think_fast>', '<ifm|think_faster>'],
  ['</ifm|think>', '</ifm|think_fast>', '</ifm|think_faster>'],
  { breaks: ['<ifm|tool_calls>', '<ifm|tool_call>'] },
)
const KIMI_TOKENS = ['<|open|>', '<|close|>', '<|sep|>']
const kimiChannelTags = new ReasoningTags('<|open|>think<|sep|>', '<|close|>think<|sep|>', {
  tokens: KIMI_TOKENS,
  breaks: ['<|open|>response<|sep|>', '<|open|>tools<|sep|>'],
})
const plamoTags = new ReasoningTags('<|plamo:begin_think:plamo|>', '<|plamo:end_think:plamo|>', {
  tokens: [
    '<|plamo:begin_think:plamo|>',
    '<|plamo:end_think:plamo|>',
    '<|plamo:begin_',
    '<|plamo:end_',
    ':plamo|>',
  ],
  breaks: ['<|plamo:begin_tool_requests:plamo|>'],
})
const think: ReasoningFormat = { tags: thinkTags, startsInside: false }
const thinkFromStart: ReasoningFormat = { tags: thinkTags, startsInside: true }
/** Models of these families sometimes start a tool call before they close their reasoning. */
const callingTags = new ReasoningTags('<think>', '</think>', {
  breaks: ['<tool_call>'],
  isBreak: isCallBegin,
})
const callingThink: ReasoningFormat = { tags: callingTags, startsInside: false }
const hunyuanOf = (suffix: string): ReasoningFormat => ({
  tags: new ReasoningTags(`<think${suffix}>`, `</think${suffix}>`),
  startsInside: false,
  answerTag: `answer${suffix}`,
})

const FORMATS: Readonly<Record<string, ReasoningFormat>> = {
  basic: think,
  qwen3: callingThink,
  nemotron_deci: think,
  glm45: callingThink,
  glm47: callingThink,
  deepseek_v3: think,
  deepseek_v3_1: think,
  deepseek_v3_2: think,
  deepseek_v4: think,
  nemotron_v3: callingThink,
  deepseek_r1: thinkFromStart,
  step3: thinkFromStart,
  nemotron_nano: thinkFromStart,
  nemotron3: { tags: callingTags, startsInside: true },
  kimi_k25: {
    tags: new ReasoningTags('<think>', '</think>', { breaks: ['<|tool_calls_section_begin|>'] }),
    startsInside: true,
  },
  kimi: { tags: kimiTags, startsInside: false },
  mistral: { tags: mistralTags, startsInside: true, writesOpening: true },
  granite: { tags: graniteTags, startsInside: false },
  minimax_m2: thinkFromStart,
  minimax_m3: { tags: minimaxTags, startsInside: false },
  gemma4: { tags: gemmaTags, startsInside: false },
  seed_oss: { tags: seedTags, startsInside: false },
  longcat: { tags: longcatTags, startsInside: false },
  command_r7b: { tags: commandTags, startsInside: false, dropped: COMMAND_ANSWER },
  cohere_command4: { tags: commandTags, startsInside: true, dropped: COMMAND_ANSWER },
  olmo3: thinkFromStart,
  hunyuan: hunyuanOf(''),
  hunyuan_a13b: hunyuanOf(''),
  ernie45: { tags: thinkTags, startsInside: true, answerTag: 'response' },
  apertus: { tags: apertusTags, startsInside: false },
  k2_horizon: { tags: horizonTags, startsInside: true },
  kimi_k3: {
    tags: kimiChannelTags,
    startsInside: true,
    dropped: ['<|open|>response<|sep|>', '<|close|>response<|sep|>', '<|close|>message<|sep|>'],
    droppedTokens: KIMI_TOKENS,
  },
  plamo3: { tags: plamoTags, startsInside: true },
}

/** Undefined for an unknown name. `hy_v3:opensource` is Hunyuan with the tags `<think:opensource>`. */
function formatOf(name: string): ReasoningFormat | undefined {
  const key = parserKey(name, ALIASES)
  const suffix = suffixOf(name)
  if (suffix === '') return Object.hasOwn(FORMATS, key) ? FORMATS[key] : undefined
  return key === 'hunyuan' ? hunyuanOf(suffix) : undefined
}

export const REASONING_PARSER_NAMES: readonly string[] = [
  ...Object.keys(FORMATS),
  'gpt_oss',
  'muse',
  'inkling',
  'minimax_append_think',
]

/** Also accepts the names used by vLLM and SGLang. */
export function isReasoningParser(name: string): boolean {
  return createReasoningParser(name) !== null
}

interface ReasoningParserOptions {
  /** The end of the rendered prompt: if the template has written the opening tag, the output begins inside reasoning. */
  readonly promptText?: string | undefined
  /** The client has disabled thinking: only an explicit opening tag starts reasoning. */
  readonly isThinkingOff?: boolean | undefined
}

/** Null for an unknown name. `deepseek-r1` is accepted for `deepseek_r1`. */
export function createReasoningParser(
  name: string,
  options: ReasoningParserOptions = {},
): OutputParser | null {
  const key = parserKey(name, ALIASES)
  if (key === 'gpt_oss') return new HarmonyParser()
  if (key === 'muse' || key === 'inkling') return createToolCallParser(key)
  if (key === 'minimax_append_think') return new PrefixParser('<think>')
  const format = formatOf(name)
  if (format === undefined) return null
  const { answerTag, dropped, droppedTokens } = format
  const parser = new ReasoningParser(format.tags, beginsInside(format, options))
  if (dropped !== undefined) return new DroppedMarkersParser(parser, dropped, droppedTokens)
  return answerTag === undefined ? parser : new AnswerTagsParser(parser, answerTag)
}

/**
 * How reasoning of this format begins and ends, for a grammar that allows it. Null: the model does not reason here,
 * or has already done so.
 */
export function thoughtFormOf(
  name: string,
  options: ReasoningParserOptions = {},
): ThoughtForm | null {
  const key = parserKey(name, ALIASES)
  if (key === 'gpt_oss') return HARMONY_THOUGHT
  if (key === 'muse') return MUSE_THOUGHT
  if (key === 'inkling') return INKLING_THOUGHT
  const format = formatOf(name)
  if (format === undefined) return null
  const { opens, closes } = format.tags
  const isInside = beginsInside(format, options)
  const end = options.promptText?.trimEnd()
  const isOver = end !== undefined && closes.some((tag) => end.endsWith(tag))
  if (isOver || (!isInside && options.isThinkingOff === true)) return null
  return { opens, closes, isInside }
}

/** The text that closes reasoning of this format if Baton has to force it (thinking limit). Null: there is none. */
export function thoughtClosingOf(name: string): string | null {
  const key = parserKey(name, ALIASES)
  if (key === 'gpt_oss') return HARMONY_CLOSING
  if (key === 'muse') return MUSE_CLOSING
  if (key === 'inkling') return INKLING_CLOSING
  const [close] = formatOf(name)?.tags.closes ?? []
  return close === undefined ? null : `\n${close}\n\n`
}

const HARMONY_CLOSING = '<|end|><|start|>assistant<|channel|>final<|message|>'

const INKLING_CLOSING = '<|end_message|><|message_model|><|content_text|>'

const INKLING_THOUGHT: ThoughtForm = {
  opens: ['<|message_model|><|content_thinking|>', '<|content_thinking|>'],
  closes: ['<|end_message|>'],
  isInside: false,
  answerHead: '<|message_model|><|content_text|>',
}

const MUSE_CLOSING = '<|eom|><|start|>assistant to=user<|message|>'

const MUSE_THOUGHT: ThoughtForm = {
  opens: [' to=self<|message|>'],
  closes: ['<|eom|><|start|>assistant'],
  isInside: false,
  answerHead: ' to=user<|message|>',
}

const HARMONY_THOUGHT: ThoughtForm = {
  opens: ['<|channel|>analysis<|message|>'],
  closes: ['<|end|><|start|>assistant'],
  isInside: false,
  answerHead: '<|channel|>final<|message|>',
}

/** The end of the prompt takes precedence over what the model usually does. */
function beginsInside(format: ReasoningFormat, options: ReasoningParserOptions): boolean {
  const { tags } = format
  const startsInside = format.startsInside && options.isThinkingOff !== true
  const end = options.promptText?.trimEnd()
  if (end === undefined) return startsInside
  if (tags.opens.some((tag) => end.endsWith(tag))) return true
  const isOutside = format.writesOpening === true || tags.closes.some((tag) => end.endsWith(tag))
  return isOutside ? false : startsInside
}

const DETECTABLE: readonly (readonly [string, string])[] = [
  ['<|channel|>', 'gpt_oss'],
  ['<atem:', 'muse'],
  ['<|content_thinking|>', 'inkling'],
  ['<|channel>thought', 'gemma4'],
  ['<mm:think>', 'minimax_m3'],
  ['◁think▷', 'kimi'],
  ['[THINK]', 'mistral'],
  ['<seed:think>', 'seed_oss'],
  ['<|inner_prefix|>', 'apertus'],
  ['<ifm|think>', 'k2_horizon'],
  ['<|open|>', 'kimi_k3'],
  ['<|plamo:begin_think', 'plamo3'],
  ['<longcat_think>', 'longcat'],
  ['<|START_THINKING|>', 'command_r7b'],
  ['Here is my thought process:', 'granite'],
  ["Here's my thought process:", 'granite'],
]

/** Detects the format from a chat template; null if unknown. */
export function detectReasoningParser(template: string): string | null {
  const found = DETECTABLE.find(([marker]) => template.includes(marker))?.[1]
  if (found !== undefined) return found
  const suffix = hunyuanSuffixOf(template, 'think') ?? ''
  if (suffix !== '') return `hunyuan${suffix}`
  if (!template.includes('<think>') && !template.includes('</think>')) return null
  // Tags around an answer that follows reasoning; other models use the same tags around tool results.
  const answer = /<\/think>[^<]{0,40}<(answer|response)>/.exec(template)?.[1]
  if (answer !== undefined) return answer === 'answer' ? 'hunyuan_a13b' : 'ernie45'
  return template.includes('<tool_call>') ? 'qwen3' : 'basic'
}

/** Inserts a text before the output and passes the output through. */
class PrefixParser implements OutputParser {
  readonly markers: readonly string[] = ['<think>', '</think>']
  #prefix: string

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  push(text: string): readonly OutputEvent[] {
    if (text === '') return []
    const event = { kind: 'text' as const, text: this.#prefix + text }
    this.#prefix = ''
    return [event]
  }

  flush(): readonly OutputEvent[] {
    return []
  }
}

const CALL_BEGINS = [/^\{\s*"name"/, /^<function=/, /^[\w.-]{1,100}\s*<arg_key>/]
const HEADS = ['<function=', '<arg_key>']

/** Whether a tool call follows `<tool_call>`, in one of the notations that use this tag. */
function isCallBegin(behind: string): 'yes' | 'no' | 'undecided' {
  const text = behind.trimStart()
  if (CALL_BEGINS.some((begin) => begin.test(text))) return 'yes'
  const rest = text.replace(/^[\w.-]{1,100}\s*/, '')
  const mayBe =
    HEADS.some((head) => head.startsWith(rest)) || /^\{\s*(?:"(?:n(?:am?)?|name)?)?$/.test(text)
  return mayBe ? 'undecided' : 'no'
}
