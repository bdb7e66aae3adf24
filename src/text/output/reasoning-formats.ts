/** The reasoning formats by the names that people already use for them. */
import { HarmonyParser } from './harmony-parser.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'
import { parserKey } from './parser-key.ts'
import { ReasoningParser, ReasoningTags } from './reasoning-parser.ts'

interface ReasoningFormat {
  readonly tags: ReasoningTags
  /** What the model usually does: its template writes the opening tag, or it leaves it out. */
  readonly startsInside: boolean
}

const thinkTags = new ReasoningTags('<think>', '</think>')
const kimiTags = new ReasoningTags('◁think▷', '◁/think▷')
const mistralTags = new ReasoningTags('[THINK]', '[/THINK]')
const minimaxTags = new ReasoningTags('<mm:think>', '</mm:think>')
const gemmaTags = new ReasoningTags('<|channel>thought', '<channel|>', ['<|channel>', '<channel|>'])
const graniteTags = new ReasoningTags('Here is my thought process:', 'Here is my response:')
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
}

export const REASONING_PARSER_NAMES: readonly string[] = [
  ...Object.keys(FORMATS),
  'gpt_oss',
  'minimax_append_think',
]

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
  const key = parserKey(name)
  if (key === 'gpt_oss') return new HarmonyParser()
  if (key === 'minimax_append_think') return new PrefixParser('<think>')
  const format = FORMATS[key]
  if (format === undefined) return null
  return new ReasoningParser(format.tags, beginsInside(format, options))
}

/** What the prompt ends with counts for more than what the model usually does. */
function beginsInside(format: ReasoningFormat, options: ReasoningParserOptions): boolean {
  const { tags } = format
  const startsInside = format.startsInside && options.isThinkingOff !== true
  const end = options.promptText?.trimEnd()
  if (end === undefined) return startsInside
  if (end.endsWith(tags.open)) return true
  return end.endsWith(tags.close) ? false : startsInside
}

/** Which format a chat template speaks, or null. */
export function detectReasoningParser(template: string): string | null {
  if (template.includes('<|channel|>')) return 'gpt_oss'
  if (template.includes(gemmaTags.open)) return 'gemma4'
  if (template.includes(minimaxTags.open)) return 'minimax_m3'
  if (template.includes(kimiTags.open)) return 'kimi'
  if (template.includes(mistralTags.open)) return 'mistral'
  if (template.includes(thinkTags.open) || template.includes(thinkTags.close)) return 'basic'
  return null
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
