/** The reasoning formats by the names that people already use for them. */
import { HarmonyParser } from './harmony-parser.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'
import { ReasoningParser } from './reasoning-parser.ts'
import type { ReasoningTags } from './reasoning-parser.ts'

const think = { open: '<think>', close: '</think>', startsInside: false }
const thinkFromStart = { ...think, startsInside: true }
const kimi = { open: '◁think▷', close: '◁/think▷', startsInside: false }
const mistral = { open: '[THINK]', close: '[/THINK]', startsInside: true }
const granite = {
  open: 'Here is my thought process:',
  close: 'Here is my response:',
  startsInside: false,
}

const TAGS: Readonly<Record<string, ReasoningTags>> = {
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
  kimi,
  mistral,
  granite,
}

export const REASONING_PARSER_NAMES: readonly string[] = [
  ...Object.keys(TAGS),
  'gpt_oss',
  'minimax_append_think',
]

interface ReasoningParserOptions {
  /** The end of the rendered prompt: a template that has already written the opening tag begins inside. */
  readonly promptText?: string
}

/** Null: there is no parser of this name. `deepseek-r1` is `deepseek_r1`. */
export function createReasoningParser(
  name: string,
  options: ReasoningParserOptions = {},
): OutputParser | null {
  const key = name.toLowerCase().replaceAll('-', '_')
  if (key === 'gpt_oss') return new HarmonyParser()
  if (key === 'minimax_append_think') return new PrefixParser('<think>')
  const tags = TAGS[key]
  if (tags === undefined) return null
  return new ReasoningParser({ ...tags, startsInside: beginsInside(tags, options.promptText) })
}

/** What the prompt ends with counts for more than what the model usually does. */
function beginsInside(tags: ReasoningTags, promptText: string | undefined): boolean {
  const end = promptText?.trimEnd()
  if (end === undefined) return tags.startsInside
  if (end.endsWith(tags.open)) return true
  return end.endsWith(tags.close) ? false : tags.startsInside
}

/** Which format a chat template speaks, or null. */
export function detectReasoningParser(template: string): string | null {
  if (template.includes('<|channel|>')) return 'gpt_oss'
  if (template.includes(kimi.open)) return 'kimi'
  if (template.includes(mistral.open)) return 'mistral'
  if (template.includes(think.open) || template.includes(think.close)) return 'basic'
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
