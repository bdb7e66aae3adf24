import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { everyCut } from '../../../test/text/every-cut.ts'
import { parsedOutput } from '../../../test/text/parsed-output.ts'
import type { OfferedTool } from '../output/output-event.ts'
import { createToolCallParser, TOOL_CALL_PARSER_NAMES } from './tool-formats.ts'

interface Row {
  readonly parser: string
  readonly sample: string
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/text-stream.json', import.meta.url), 'utf8'),
) as {
  readonly tools: readonly OfferedTool[]
  readonly toolSamples: Readonly<Record<string, string>>
  readonly toolCalls: readonly Row[]
}

const PARIS = [['get_weather', '{"city":"Paris"}']] as const
const BOTH = [...PARIS, ['get_time', '{}']] as const

/** Recorded results that are wrong: the correct result, and why. */
const FAULTS: Readonly<Record<string, readonly [text: string, calls: unknown, why: string]>> = {
  'qwen25/hermes_two': ['Let me see.  done', BOTH, 'blanks between calls are nobody’s text'],
  'qwen25/hermes_trunc': ['', PARIS, 'the call is whole, only its closing tag is missing'],
  'qwen25/hermes_bad': ['<tool_call>{"name": oops</tool_call>', [], 'text is never lost'],
  'qwen25/text_then_hermes': ['Hello {x} there. ', PARIS, 'a blank of the text was lost'],
  'mistral/mistral_v11': ['', PARIS, 'the call was lost'],
  'glm45/glm': ['', PARIS, 'the call was not found'],
  'deepseek_v3_1/dsv3': ['', PARIS, 'the call was lost'],
  'harmony/harmony': ['', PARIS, 'the call was lost'],
  'default/hermes': ['', PARIS, 'tags are not for the reader'],
  'default/hermes_two': ['Let me see.  done', BOTH, 'tags are not for the reader'],
  'default/hermes_trunc': ['', PARIS, 'tags are not for the reader'],
  'default/deci': ['', PARIS, 'tags are not for the reader'],
  'default/jamba': ['', PARIS, 'tags are not for the reader'],
  'default/mistral': ['', PARIS, 'the call was not found'],
  'default/text_then_hermes': ['Hello {x} there. ', PARIS, 'the call was not found'],
}

describe('recorded tool calls', () => {
  it.each(vectors.toolCalls)(
    '$parser of "$sample" - as recorded, or the corrected result',
    (row) => {
      const [text, calls] = FAULTS[`${row.parser}/${row.sample}`] ?? [
        row.text,
        row.calls.map((call) => [call.name, call.arguments]),
      ]
      for (const pieces of everyCut(vectors.toolSamples[row.sample] ?? '')) {
        const output = parsedOutput(createToolCallParser(row.parser, vectors.tools), pieces)
        expect(output).toEqual({ text, calls, reasoning: output.reasoning })
      }
    },
  )

  it.each(TOOL_CALL_PARSER_NAMES)(
    '%s - every sample of every format, in pieces of any size',
    (name) => {
      for (const sample of Object.values(vectors.toolSamples)) {
        const outputs = everyCut(sample).map((pieces) =>
          JSON.stringify(parsedOutput(createToolCallParser(name, vectors.tools), pieces)),
        )
        expect(new Set(outputs).size).toBe(1)
      }
    },
  )

  it('corrections - still differ from the recording', () => {
    const rows = new Map(vectors.toolCalls.map((row) => [`${row.parser}/${row.sample}`, row]))
    for (const [key, [text, calls]] of Object.entries(FAULTS)) {
      const row = rows.get(key)
      const recorded = row?.calls.map((call) => [call.name, call.arguments])
      expect([key, row?.text, recorded]).not.toEqual([key, text, calls])
    }
  })
})
