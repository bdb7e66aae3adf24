import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { detectOutputFormat } from '../formats/model-output-parser.ts'
import { readGgufMetadata } from '../gguf/gguf-metadata.ts'
import { renderChat } from '../template/render-chat.ts'
import { modelTextFromGguf, modelTextFromHuggingFace } from './model-text.ts'
import type { ModelText } from './model-text.ts'

const MODEL = new URL('../../../models/storyteller/', import.meta.url)
const tokenizer: unknown = JSON.parse(readFileSync(new URL('tokenizer.json', MODEL), 'utf8'))

const USUAL = '{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}'
const FOR_TOOLS =
  '{% for t in tools %}{{ t.function.name }} {% endfor %}Answer with <tool_call>\n{"name": …, "arguments": …}\n</tool_call>: {{ messages[0].content }}{{ eos_token }}'
const NAMED = [
  { name: 'default', template: USUAL },
  { name: 'tool_use', template: FOR_TOOLS },
]

const fromFolder = (chat_template: unknown): ModelText =>
  modelTextFromHuggingFace({ tokenizer, tokenizerConfig: { chat_template, eos_token: '<E>' } })

function fromGguf(): ModelText {
  const file = readFileSync(new URL('storyteller-q8_0.gguf', MODEL))
  const read = readGgufMetadata(file)
  if (read.kind !== 'metadata') throw new Error('no metadata')
  const { metadata } = read
  const values = new Map(metadata.values).set('tokenizer.chat_template.tool_use', FOR_TOOLS)
  return modelTextFromGguf({ ...metadata, values, chatTemplate: USUAL })
}

function rendered(model: ModelText, isWithTools: boolean): string {
  const messages = [{ role: 'user', content: 'hi' }]
  const tools = [{ type: 'function', function: { name: 'get_time' } }]
  if (model.template === null) throw new Error('no template')
  const input = isWithTools ? { messages, tools } : { messages }
  return renderChat(model.template, model.tokenizer, input).text
}

describe('a model with a template of its own for requests with tools', () => {
  it.each([
    ['tokenizer_config.json', () => fromFolder(NAMED)],
    ['GGUF', fromGguf],
  ])('%s - such requests are rendered with it, and its notation of calls is read', (_, load) => {
    const model = load()
    expect(rendered(model, false)).toMatch(/^hi</)
    expect(rendered(model, true)).toMatch(/^get_time Answer with <tool_call>[^]*: hi</)
    expect(detectOutputFormat(model).toolCalls).toBe('hermes')
  })

  it('one template, or a list without it - is used for all requests', () => {
    for (const said of [USUAL, NAMED.slice(0, 1), [{ name: 'other', template: USUAL }]]) {
      const model = fromFolder(said)
      expect([rendered(model, false), rendered(model, true)]).toEqual(['hi<E>', 'hi<E>'])
    }
  })
})
