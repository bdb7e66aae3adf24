import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { OutputParser } from '../output/output-event.ts'
import {
  createReasoningParser,
  detectReasoningParser,
  REASONING_PARSER_NAMES,
  thoughtClosingOf,
} from './reasoning-formats.ts'
import { everyCut } from '../../../test/text/every-cut.ts'

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/text-stream.json', import.meta.url), 'utf8'),
) as {
  reasoningSamples: Record<string, string>
  reasoning: { parser: string; sample: string; text: string; reasoning: string }[]
}

interface Outcome {
  readonly text: string
  readonly reasoning: string
}

function run(parser: OutputParser | null, pieces: readonly string[]): Outcome {
  if (parser === null) throw new Error('no such parser')
  const outcome = { text: '', reasoning: '' }
  for (const event of [...pieces.flatMap((piece) => parser.push(piece)), ...parser.flush()]) {
    if (event.kind === 'text' || event.kind === 'reasoning') outcome[event.kind] += event.text
  }
  return outcome
}

describe('reasoning parsers', () => {
  it.each(vectors.reasoning)(
    'recorded $parser of "$sample" - same result, in pieces of any size',
    (row) => {
      const { parser, sample, text, reasoning } = row
      for (const pieces of everyCut(vectors.reasoningSamples[sample] ?? '')) {
        expect(run(createReasoningParser(parser), pieces)).toEqual({ text, reasoning })
      }
    },
  )

  it.each([
    ['kimi', 'a ◁think▷b◁/think▷ c', 'a  c', 'b'],
    ['mistral', 'b[/THINK]c', 'c', 'b'],
    ['mistral', ' [THINK]b[/THINK]c', 'c', 'b'],
    ['granite', 'Here is my thought process: a Here is my response: b', ' b', ' a '],
    [
      'gpt-oss',
      '<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b',
      'b',
      'a',
    ],
    ['gpt_oss', 'no header at all', 'no header at all', ''],
    // Granite 3.2 writes either; the others as their chat templates write past turns.
    ['granite', "Here's my thought process: a Here's my response: b", ' b', ' a '],
    ['seed_oss', '<seed:think>a</seed:think>b', 'b', 'a'],
    ['longcat', '<longcat_think>a</longcat_think>b', 'b', 'a'],
    ['command_r7b', '<|START_THINKING|>a<|END_THINKING|>b', 'b', 'a'],
    ['command_r7b', '<|START_RESPONSE|>b<|END_RESPONSE|>', 'b', ''],
    ['cohere_command4', 'a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|>', 'b', 'a'],
    ['cohere_command4', 'a<|START_TEXT|>b <|START_', 'b <|START_', 'a'],
    [
      'cohere_command4',
      'a<|END_THINKING|><|START_ACTION|>[]<|END_ACTION|>',
      '<|START_ACTION|>[]<|END_ACTION|>',
      'a',
    ],
    ['apertus', '<|inner_prefix|>a<|inner_suffix|>b', 'b', 'a'],
    [
      'apertus2509',
      '<|inner_prefix|>a<|tools_prefix|>[]<|tools_suffix|>',
      '<|tools_prefix|>[]<|tools_suffix|>',
      'a',
    ],
    ['k2_horizon', 'a</ifm|think_fast>b', 'b', 'a'],
    [
      'k2_horizon',
      '<ifm|think>a<ifm|tool_call>f</ifm|tool_call>',
      '<ifm|tool_call>f</ifm|tool_call>',
      'a',
    ],
    [
      'kimi_k3',
      'a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|close|>message<|sep|>',
      'b',
      'a',
    ],
    [
      'inkling',
      '<|message_model|><|content_thinking|>a<|end_message|><|message_model|><|content_text|>b<|end_message|><|content_model_end_sampling|>',
      'b',
      'a',
    ],
    ['inkling', '<|content_thinking|>a', '', 'a'],
    ['inkling', 'plain <|text', 'plain <|text', ''],
    ['muse', ' to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>b<|eot|>', 'b', 'a'],
    ['muse_glimmer', 'to the point', 'to the point', ''],
    ['plamo3', '<|plamo:begin_think:plamo|>a<|plamo:end_think:plamo|>b', 'b', 'a'],
    ['hy_v3:opensource', '<think:opensource>a</think:opensource>b</think>', 'b</think>', 'a'],
    ['hy_v4', '<think>a</think>b', 'b', 'a'],
    ['qwen3', '<think>a <tool_call>\n{"name": "f"}', '<tool_call>\n{"name": "f"}', 'a '],
    ['qwen3', '<think>a <tool_call> is a tag</think>b', 'b', 'a <tool_call> is a tag'],
    ['qwen3', '<think>a <tool_call>{"na', '', 'a <tool_call>{"na'],
    ['glm45', '<think>a<tool_call>f\n<arg_key>', '<tool_call>f\n<arg_key>', 'a'],
    ['nemotron_v3', '<think>a<tool_call>\n<function=f>', '<tool_call>\n<function=f>', 'a'],
    ['kimi_k2', 'a<|tool_calls_section_begin|>b', '<|tool_calls_section_begin|>b', 'a'],
    ['olmo3', 'a</think>b', 'b', 'a'],
    ['hunyuan_a13b', '<think>\na\n</think>\n<answer>\nb\n</answer>', 'b', '\na\n'],
    ['hunyuan', '<answer>\nb </answers> c\n</answer>\n d', 'b </answers> c\n d', ''],
    ['hunyuan_a13b', '<answ b</answer>', '<answ b</answer>', ''],
    ['ernie45', 'a\n</think>\n\n<response>\nb\n</response>\n', 'b', 'a\n'],
    ['ernie45', 'a</think>\nb', '\nb', 'a'],
    ['gemma4', '<|channel>thought\na<channel|>b', 'b', '\na'],
    ['minimax_m3', 'x<mm:think>a</mm:think>b', 'xb', 'a'],
    ['minimax-m2', 'a</think>b', 'b', 'a'],
    ['nemotron_v3', '<think>a</think>b', 'b', 'a'],
    ['deepseekv4', 'x<think>a</think>b', 'xb', 'a'],
    ['deepseek-r1', '\n\n<think>\na</think>b', 'b', '\na'],
  ])('%s of %j - text and reasoning, however cut', (name, output, text, reasoning) => {
    for (const pieces of everyCut(output)) {
      expect(run(createReasoningParser(name), pieces)).toEqual({ text, reasoning })
    }
  })

  it.each(REASONING_PARSER_NAMES)('%s - every recorded sample, in pieces of any size', (name) => {
    for (const sample of Object.values(vectors.reasoningSamples)) {
      const outcomes = everyCut(sample).map((pieces) =>
        JSON.stringify(run(createReasoningParser(name), pieces)),
      )
      expect(new Set(outcomes).size).toBe(1)
    }
  })

  it('a prompt that ends with the opening tag - the output begins inside reasoning', () => {
    const inside = createReasoningParser('qwen3', {
      promptText: '<|im_start|>assistant\n<think>\n',
    })
    expect(run(inside, ['a</think>b'])).toEqual({ text: 'b', reasoning: 'a' })
    const closed = createReasoningParser('deepseek_r1', { promptText: 'x<think>\n\n</think>\n\n' })
    expect(run(closed, ['b'])).toEqual({ text: 'b', reasoning: '' })
  })

  it('thinking disabled - text before any tag is text', () => {
    for (const name of [
      'deepseek_r1',
      'step3',
      'nemotron_nano',
      'nemotron3',
      'kimi_k25',
      'mistral',
    ]) {
      const off = createReasoningParser(name, { isThinkingOff: true })
      expect(run(off, ['plain'])).toEqual({ text: 'plain', reasoning: '' })
      expect(run(createReasoningParser(name), ['plain'])).toEqual({ text: '', reasoning: 'plain' })
    }
    const opened = { isThinkingOff: true, promptText: 'x<think>\n' }
    expect(run(createReasoningParser('qwen3', opened), ['a</think>b']).reasoning).toBe('a')
  })

  it('names - every listed name is accepted, others are not', () => {
    for (const name of REASONING_PARSER_NAMES) expect(createReasoningParser(name)).not.toBeNull()
    expect(createReasoningParser('nobody')).toBeNull()
  })

  it('templates - the format is detected', () => {
    expect(detectReasoningParser("{{ '<think>' }}")).toBe('basic')
    expect(detectReasoningParser('[THINK]')).toBe('mistral')
    expect(detectReasoningParser('<|channel>thought\\n')).toBe('gemma4')
    expect(detectReasoningParser('<mm:think>')).toBe('minimax_m3')
    expect(detectReasoningParser('<seed:think>')).toBe('seed_oss')
    expect(detectReasoningParser('<longcat_think>')).toBe('longcat')
    expect(detectReasoningParser('<|START_THINKING|>')).toBe('command_r7b')
    expect(detectReasoningParser('</think>\\n<answer>')).toBe('hunyuan_a13b')
    expect(detectReasoningParser('</think>\\n\\n<response>')).toBe('ernie45')
    expect(detectReasoningParser('Here is my thought process:')).toBe('granite')
    expect(detectReasoningParser('{{ messages }}')).toBeNull()
  })
})

it('thoughtClosingOf - the closing tag of the format', () => {
  expect(thoughtClosingOf('qwen3')).toBe('\n</think>\n\n')
  expect(thoughtClosingOf('hunyuan_a13b')).toBe('\n</think>\n\n')
  expect(thoughtClosingOf('granite')).toBe('\nHere is my response:\n\n')
  expect(thoughtClosingOf('kimi_k3')).toBe('\n<|close|>think<|sep|>\n\n')
  expect(thoughtClosingOf('gpt_oss')).toContain('<|channel|>final')
  expect(thoughtClosingOf('minimax_append_think')).toBeNull()
})
