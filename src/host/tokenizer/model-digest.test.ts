import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { ChatTemplate, modelTextFromHuggingFace } from '../../text/index.ts'
import { modelAgreementOf, modelTextDigest } from './model-digest.ts'
import { loadModelText } from './model-files.ts'
import { storyteller } from '../../../test/frontend/scripted-frontend.ts'

const FOLDER = new URL('../../../models/storyteller/', import.meta.url)

interface TokenizerJson {
  model: { vocab: Record<string, number>; merges: unknown[] }
  [field: string]: unknown
}

function changed(change: (json: TokenizerJson) => void, template?: string) {
  const read = (name: string): unknown =>
    JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')) as unknown
  const tokenizer = read('tokenizer.json') as TokenizerJson
  change(tokenizer)
  return modelTextDigest(
    modelTextFromHuggingFace({
      tokenizer,
      tokenizerConfig: read('tokenizer_config.json'),
      config: read('config.json'),
      ...(template === undefined ? {} : { chatTemplate: template }),
    }),
  )
}

describe('modelTextDigest - equal if and only if tokenizer and template behave the same', () => {
  it('of a folder and of the GGUF file beside it - are equal', async () => {
    const gguf = await loadModelText(fileURLToPath(new URL('storyteller-q8_0.gguf', FOLDER)))
    expect(modelTextDigest(gguf)).toEqual(modelTextDigest(storyteller()))
  })

  it('another template for requests with tools - differs', () => {
    const of = (toolUse: string) => {
      const template = new ChatTemplate('{{ messages }}', { toolUse })
      return modelTextDigest({ ...storyteller(), template }).template
    }
    expect(of('a\n')).toBe(of('a'))
    expect(of('a')).not.toBe(of('b'))
  })

  it('one merge less, merges in another order, one name changed, another template - differ', () => {
    const usual = changed(() => undefined)
    const less = changed(({ model }) => void model.merges.splice(100, 1))
    const swapped = changed(({ model: { merges } }) => {
      merges.unshift(...merges.splice(0, 400).toReversed())
    })
    const renamed = changed(({ model }) => {
      const [name, id] = Object.entries(model.vocab).at(-1) ?? ['', 0]
      delete model.vocab[name]
      model.vocab[`${name}zzz`] = id
      model.merges.pop()
    })
    const template = changed(() => undefined, '{{ messages }}')
    expect(less.tokenizer).not.toBe(usual.tokenizer)
    expect(swapped.tokenizer).not.toBe(usual.tokenizer)
    expect(renamed.vocabulary).not.toBe(usual.vocabulary)
    expect(template).toEqual({ ...usual, template: template.template })
    expect(template.template).not.toBe(usual.template)
  })
})

describe('modelAgreementOf - the checksum of a card', () => {
  it('changes with each fact, and with nothing else of the engine', () => {
    const engine = { model: 'm', kvCacheBlockSize: 16, contextLength: 4096 }
    const sum = (change: object) =>
      modelAgreementOf({ ...engine, ...change }, { text: null }).checksum
    expect(sum({ maxNumSeqs: 3, model: 'n' })).toBe(sum({}))
    expect(sum({ kvCacheBlockSize: 32 })).not.toBe(sum({}))
    expect(sum({ contextLength: 4095 })).not.toBe(sum({}))
    expect(modelAgreementOf(engine, { text: storyteller() }).checksum).not.toBe(sum({}))
  })
})
