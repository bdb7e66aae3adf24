/** The reasoning formats by the names that people already use for them. */
import type { ThoughtForm } from '../gbnf/model-output-gbnf.ts'
import { AnswerTagsParser } from './answer-tags-parser.ts'
import { HarmonyParser } from './harmony-parser.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'
import { parserKey } from './parser-key.ts'
import { ReasoningParser, ReasoningTags } from './reasoning-parser.ts'

interface ReasoningFormat {
  readonly tags: ReasoningTags
  /** What the model usually does: its template writes the opening tag, or it leaves it out. */
  readonly startsInside: boolean
  /** A tag around the answer, which is dropped. */
  readonly answerTag?: string
}

const thinkTags = new ReasoningTags('<think>', '</think>')
const kimiTags = new ReasoningTags('◁think▷', '◁/think▷')
const mistralTags = new ReasoningTags('[THINK]', '[/THINK]')
const minimaxTags = new ReasoningTags('<mm:think>', '</mm:think>')
const gemmaTags = new ReasoningTags('<|channel>thought', '<channel|>', ['<|channel>', '<channel|>'])
const graniteTags = new ReasoningTags(
  ['Here is my thought process:', "Here's my thought process:"],
  ['Here is my response:', "Here's my response:"],
)
const seedTags = new ReasoningTags('<seed:think>', '</seed:think>')
const longcatTags = new ReasoningTags('<longcat_think>', '</longcat_think>')
const commandTags = new ReasoningTags('<|START_THINKING|>', '<|END_THINKING|>')
const think: ReasoningFormat = { tags: thinkTags, startsInside: false }
const thinkFromStart: ReasoningFormat = { tags: thinkTags, startsInside: true }

const FORMATS: Readonly<Record<string, ReasoningFormat>> = {
  basic: think,
  qwen3: think,
  nemotron_deci: think,
  glm45: think,
  glm47: think,
  deepseek_v3: think,
  deepseek_v3_1: think,
  deepseek_v3_2: think,
  deepseek_v4: think,
  nemotron_v3: think,
  deepseek_r1: thinkFromStart,
  step3: thinkFromStart,
  nemotron_nano: thinkFromStart,
  nemotron3: thinkFromStart,
  kimi_k25: thinkFromStart,
  kimi: { tags: kimiTags, startsInside: false },
  mistral: { tags: mistralTags, startsInside: true },
  granite: { tags: graniteTags, startsInside: false },
  minimax_m2: thinkFromStart,
  minimax_m3: { tags: minimaxTags, startsInside: false },
  gemma4: { tags: gemmaTags, startsInside: false },
  seed_oss: { tags: seedTags, startsInside: false },
  longcat: { tags: longcatTags, startsInside: false },
  command_r7b: { tags: commandTags, startsInside: false },
  olmo3: thinkFromStart,
  hunyuan_a13b: { tags: thinkTags, startsInside: false, answerTag: 'answer' },
  ernie45: { tags: thinkTags, startsInside: true, answerTag: 'response' },
}

/** The same formats by the names of vLLM and SGLang. */
const ALIASES: Readonly<Record<string, string>> = {
  deepseekv3: 'deepseek_v3',
  deepseekv4: 'deepseek_v4',
  deepseek_v31: 'deepseek_v3_1',
  deepseek_v32: 'deepseek_v3_2',
  cohere: 'command_r7b',
  cohere_command3: 'command_r7b',
  ernie: 'ernie45',
  gemma_4: 'gemma4',
  holo2: 'deepseek_r1',
  hunyuan: 'hunyuan_a13b',
  interns1: 'qwen3',
  mimo: 'qwen3',
  minimax_m2_append_think: 'minimax_append_think',
  nano_v3: 'nemotron_v3',
  step3p5: 'deepseek_r1',
  openai: 'gpt_oss',
  openai_gptoss: 'gpt_oss',
  kimi_k2: 'kimi_k25',
  glm: 'glm45',
  qwen: 'qwen3',
  qwen3_thinking: 'deepseek_r1',
  minimax: 'minimax_m2',
}

export const REASONING_PARSER_NAMES: readonly string[] = [
  ...Object.keys(FORMATS),
  'gpt_oss',
  'minimax_append_think',
]

/** Also by the names that vLLM and SGLang use. */
export function isReasoningParser(name: string): boolean {
  return REASONING_PARSER_NAMES.includes(parserKey(name, ALIASES))
}

interface ReasoningParserOptions {
  /** The end of the rendered prompt: a template that has already written the opening tag begins inside. */
  readonly promptText?: string
  /** The client has turned thinking off: nothing is reasoning before an opening tag says so. */
  readonly isThinkingOff?: boolean
}

/** Null: there is no parser of this name. `deepseek-r1` is `deepseek_r1`. */
export function createReasoningParser(
  name: string,
  options: ReasoningParserOptions = {},
): OutputParser | null {
  const key = parserKey(name, ALIASES)
  if (key === 'gpt_oss') return new HarmonyParser()
  if (key === 'minimax_append_think') return new PrefixParser('<think>')
  const format = FORMATS[key]
  if (format === undefined) return null
  const parser = new ReasoningParser(format.tags, beginsInside(format, options))
  return format.answerTag === undefined ? parser : new AnswerTagsParser(parser, format.answerTag)
}

/**
 * How a thought of this format begins and ends, for a grammar that leaves room for it. Null: the model does not think here, or
 * has thought already.
 */
export function thoughtFormOf(
  name: string,
  options: ReasoningParserOptions = {},
): ThoughtForm | null {
  const key = parserKey(name, ALIASES)
  if (key === 'gpt_oss') return HARMONY_THOUGHT
  const format = FORMATS[key]
  if (format === undefined) return null
  const { opens, closes } = format.tags
  const isInside = beginsInside(format, options)
  const end = options.promptText?.trimEnd()
  const isOver = end !== undefined && closes.some((tag) => end.endsWith(tag))
  if (isOver || (!isInside && options.isThinkingOff === true)) return null
  return { opens, closes, isInside }
}

const HARMONY_THOUGHT: ThoughtForm = {
  opens: ['<|channel|>analysis<|message|>'],
  closes: ['<|end|><|start|>assistant'],
  isInside: false,
  answerHead: '<|channel|>final<|message|>',
}

/** What the prompt ends with counts for more than what the model usually does. */
function beginsInside(format: ReasoningFormat, options: ReasoningParserOptions): boolean {
  const { tags } = format
  const startsInside = format.startsInside && options.isThinkingOff !== true
  const end = options.promptText?.trimEnd()
  if (end === undefined) return startsInside
  if (tags.opens.some((tag) => end.endsWith(tag))) return true
  return tags.closes.some((tag) => end.endsWith(tag)) ? false : startsInside
}

const DETECTABLE: readonly (readonly [string, string])[] = [
  ['<|channel|>', 'gpt_oss'],
  ['<|channel>thought', 'gemma4'],
  ['<mm:think>', 'minimax_m3'],
  ['◁think▷', 'kimi'],
  ['[THINK]', 'mistral'],
  ['<seed:think>', 'seed_oss'],
  ['<longcat_think>', 'longcat'],
  ['<|START_THINKING|>', 'command_r7b'],
  ['Here is my thought process:', 'granite'],
  ["Here's my thought process:", 'granite'],
]

/** Which format a chat template speaks, or null. */
export function detectReasoningParser(template: string): string | null {
  const found = DETECTABLE.find(([marker]) => template.includes(marker))?.[1]
  if (found !== undefined) return found
  if (!template.includes('<think>') && !template.includes('</think>')) return null
  if (template.includes('<answer>')) return 'hunyuan_a13b'
  return template.includes('<response>') ? 'ernie45' : 'basic'
}

/** Puts a text before the output and leaves it alone. */
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
