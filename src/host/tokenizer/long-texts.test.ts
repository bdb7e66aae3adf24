/** Real threads that run these sources. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LongTexts } from './long-texts.ts'
import { loadModelText } from './model-files.ts'

const MODEL = 'models/storyteller'
const PROGRAM = new URL('../../../dist/bin/tokenizer-thread-main.js', import.meta.url)
const OPTIONS = { special: false }
const { tokenizer } = await loadModelText(MODEL)

const textOf = (words: number): string =>
  Array.from({ length: words }, (_, i) => `word${'abcdefghij'[i % 10]} number ${i} of`).join(' ')
const idsOf = (text: string): number[] => [...tokenizer.encode(text, OPTIONS)]

let texts: LongTexts
let threads = 0
const onThread = (): void => void (threads += 1)
beforeEach(() => {
  threads = 0
  process.on('worker', onThread)
  texts = new LongTexts({ threadsMax: 1, program: PROGRAM })
})
afterEach(async () => {
  process.off('worker', onThread)
  await texts.close()
})

const encode = async (text: string): Promise<number[]> => [
  ...(await texts.encode(tokenizer, text, OPTIONS, () => Promise.resolve(MODEL))),
]

describe('LongTexts', () => {
  it('one text after the other - no thread, and other events are handled between the steps', async () => {
    for (const text of [textOf(10_000), textOf(20_000)]) {
      let turns = 0
      let isEncoded = false
      const turn = (): void => {
        turns += 1
        if (!isEncoded) setImmediate(turn)
      }
      setImmediate(turn)
      const ids = await encode(text)
      isEncoded = true
      expect(ids).toEqual(idsOf(text))
      expect(turns).toBeGreaterThan(Math.floor(text.length / 10_000))
    }
    expect(threads).toBe(0)
  })

  it('texts that arrive while one is encoded - shorter ones first, each gets its own ids, no thread', async () => {
    const done: number[] = []
    const sizes = [10_000, 20_000, 3000, 5000]
    const all = await Promise.all(
      sizes.map(async (words) => {
        const ids = await encode(textOf(words))
        done.push(words)
        return ids
      }),
    )
    expect(all).toEqual(sizes.map((words) => idsOf(textOf(words))))
    // The first text found nothing else to do.
    expect(done).toEqual([10_000, 3000, 5000, 20_000])
    expect(threads).toBe(0)
  })

  it('more than 1.5 million characters at once - the rest goes to a thread, until there is room again', async () => {
    const [most, other] = ['the fox and the hen '.repeat(70_000), textOf(10_000)]
    const asked = [most, other, textOf(100)]
    expect(await Promise.all(asked.map(encode))).toEqual(asked.map(idsOf))
    expect(threads).toBe(1)
    await texts.close()
    expect(await encode(other)).toEqual(idsOf(other))
  })

  it('a text that cannot be divided - goes to a thread, and the next one does not', async () => {
    const one = 'a'.repeat(70_000)
    expect(await encode(one)).toEqual(idsOf(one))
    expect(threads).toBe(1)
    await texts.close()
    expect(await encode(textOf(10_000))).toEqual(idsOf(textOf(10_000)))
  })

  it('a thread that cannot find the model - its text fails, and the others do not', async () => {
    const one = 'a'.repeat(70_000)
    const [failed, stepped] = await Promise.allSettled([
      texts.encode(tokenizer, one, OPTIONS, () => Promise.resolve('/no/such/model')),
      encode(textOf(10_000)),
    ])
    expect(failed).toMatchObject({ status: 'rejected', reason: { code: 'model.load_failed' } })
    expect(stepped.status).toBe('fulfilled')
  })
})
