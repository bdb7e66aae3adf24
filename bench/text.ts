/**
 * Cost of text processing: a chat prompt of 8,000 words (template and tokenizer, with known and with new words), and
 * per output token the detokeniser, four stop strings, and the reasoning and tool-call parsers. Baselines: the library
 * `@huggingface/tokenizers` with the same file, and its `decode` of one token.
 *
 * Prints medians of the rounds and the ratio in this run.
 *
 *   npx tsx bench/text.ts [--rounds 15]
 */
import { readFileSync } from 'node:fs'
import { Tokenizer as Library } from '@huggingface/tokenizers'
import { randomInt, seededRandom } from '../src/base/index.ts'
import { loadModelText } from '../src/host/index.ts'
import {
  createOutputParser,
  Detokenizer,
  encodeChat,
  renderChat,
  StopStrings,
} from '../src/text/index.ts'
import { readOptions } from './load/options.ts'

const { values } = readOptions({ options: { rounds: { type: 'string', default: '15' } } })
const ROUNDS = Number(values.rounds)
const WORDS = 8000
const FOLDER = 'models/storyteller'

const readJson = (name: string): object =>
  JSON.parse(readFileSync(`${FOLDER}/${name}`, 'utf8')) as object
const library = new Library(readJson('tokenizer.json'), readJson('tokenizer_config.json')) as {
  encode(text: string): { readonly ids: readonly number[] }
  decode(ids: readonly number[]): string
}
const model = await loadModelText(FOLDER)
const { template, tokenizer } = model
if (template === null) throw new Error('the model has no chat template')

const random = seededRandom(1)
const word = (): string =>
  Array.from({ length: 2 + randomInt(random, 8) }, () =>
    String.fromCharCode(97 + randomInt(random, 26)),
  ).join('')
const lexicon = Array.from({ length: 2000 }, word)
const usual = Array.from({ length: WORDS }, () => lexicon[randomInt(random, lexicon.length)]).join(
  ' ',
)

function medianMs(run: () => void): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const started = performance.now()
    run()
    return performance.now() - started
  }).sort((a, b) => a - b)
  return times[ROUNDS >> 1] ?? 0
}

function promptOf(content: string): Uint32Array {
  return encodeChat(
    tokenizer,
    renderChat(template!, tokenizer, { messages: [{ role: 'user', content }] }),
  )
}

const rows: Record<
  string,
  { readonly value: string; readonly baseline?: string; readonly ratio?: string }
> = {}
function add(name: string, unit: string, value: number, baseline?: number): void {
  const text = `${value.toFixed(value < 10 ? 2 : 0)} ${unit}`
  rows[name] =
    baseline === undefined
      ? { value: text }
      : {
          value: text,
          baseline: `${baseline.toFixed(baseline < 10 ? 2 : 0)} ${unit}`,
          ratio: `${(baseline / value).toFixed(1)}x`,
        }
}

const libraryPrompt = medianMs(() => library.encode(usual))
add(
  `prompt of ${WORDS} words, words known`,
  'ms',
  medianMs(() => promptOf(usual)),
  libraryPrompt,
)
const fresh = Array.from({ length: ROUNDS }, () => Array.from({ length: WORDS }, word).join(' '))
const copies = [fresh.values(), fresh.values()] as const
const freshOwn = medianMs(() => promptOf(copies[0].next().value ?? ''))
const freshLibrary = medianMs(() => library.encode(copies[1].next().value ?? ''))
add(`prompt of ${WORDS} words, every word new`, 'ms', freshOwn, freshLibrary)

const ids = tokenizer.encode('Once upon a time a brave fox lived in the forest. '.repeat(400), {
  special: false,
})
const perTokenNs = (push: () => (id: number) => void): number => {
  const run = (): void => {
    const each = push()
    for (const id of ids) each(id)
  }
  for (let i = 0; i < 5; i++) run()
  return (medianMs(run) * 1e6) / ids.length
}
const libraryToken = perTokenNs(() => (id) => void library.decode([id]))
add(
  'detokeniser, per token',
  'ns',
  perTokenNs(() => {
    const detokenizer = new Detokenizer(tokenizer)
    return (id) => void detokenizer.push(id)
  }),
  libraryToken,
)
add(
  '… and four stop strings',
  'ns',
  perTokenNs(() => {
    const detokenizer = new Detokenizer(tokenizer)
    const stops = new StopStrings(['\n\nUser:', '</s>', '###', 'Observation:'])
    return (id) => void stops.push(detokenizer.push(id))
  }),
)
add(
  '… or both parsers',
  'ns',
  perTokenNs(() => {
    const detokenizer = new Detokenizer(tokenizer)
    const parser = createOutputParser({ reasoning: 'qwen3', toolCalls: 'hermes' })
    return (id) => void parser?.push(detokenizer.push(id))
  }),
)

console.log(
  `${ROUNDS} rounds, medians; prompt ${usual.length} characters, ${promptOf(usual).length} tokens`,
)
console.table(rows)
