import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { everyCut } from '../../../test/text/every-cut.ts'
import { parsedOutput } from '../../../test/text/parsed-output.ts'
import type { OfferedTool } from '../output/output-event.ts'
import { createOutputParser } from './model-output-parser.ts'

interface Recording {
  readonly template: string
  readonly kind: string
  readonly toolCalls: string
  readonly reasoning: string | null
  readonly prompt: string
  readonly output: string
}

/** Published chat templates, rendered with a conversation of our own; the file says how, and whose they are. */
const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/tool-call-templates.json', import.meta.url), 'utf8'),
) as {
  readonly tools: readonly OfferedTool[]
  readonly kinds: Readonly<
    Record<string, { readonly calls: number; readonly thought: string; readonly text: string }>
  >
  readonly calls: readonly (readonly [name: string, arguments: unknown])[]
  readonly recordings: readonly Recording[]
}

/** The first of each notation and kind is cut everywhere, the rest once and unit by unit. */
const first = new Set<string>()
const cases = vectors.recordings.map((recording) => {
  const key = `${recording.toolCalls}/${recording.reasoning}/${recording.kind}`
  const isFirst = !first.has(key)
  first.add(key)
  return { ...recording, isFirst }
})

describe('outputs of published chat templates', () => {
  it.each(cases)('$template, $kind - is parsed to the original content', (recording) => {
    const { toolCalls, reasoning, prompt, output, isFirst } = recording
    const kind = vectors.kinds[recording.kind]
    const cuts = isFirst ? everyCut(output) : [[output], output.split('')]
    for (const pieces of cuts) {
      const parser = createOutputParser({
        toolCalls,
        reasoning,
        promptText: prompt,
        tools: vectors.tools,
      })
      const found = parsedOutput(parser, pieces)
      expect({
        calls: found.calls.map(([name, json]): unknown => [name, JSON.parse(json)]),
        thought: found.reasoning.trim(),
        text: found.text.trim(),
      }).toEqual({ ...kind, calls: vectors.calls.slice(0, kind?.calls) })
    }
  })
})
