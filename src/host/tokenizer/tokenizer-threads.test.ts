/** Real threads that run these sources. */
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, it } from 'vitest'
import { loadModelText } from './model-files.ts'
import { TokenizerThreads } from './tokenizer-threads.ts'

const MODEL = 'models/storyteller'
const PROGRAM = new URL('../../../dist/bin/tokenizer-thread-main.js', import.meta.url)
const OPTIONS = { special: false }
const { tokenizer } = await loadModelText(MODEL)

const open: TokenizerThreads[] = []
afterEach(async () => {
  for (const threads of open.splice(0)) await threads.close()
})

function start(threadsMax: number, options: { idleMs?: number } = {}): TokenizerThreads {
  const threads = new TokenizerThreads({ threadsMax, program: PROGRAM, ...options })
  open.push(threads)
  return threads
}

const textOf = (words: number): string =>
  Array.from({ length: words }, (_, i) => `word${i}`).join(' ')

/** The nice value of each thread of this process. */
function niceValues(): number[] {
  return readdirSync('/proc/self/task').map((thread) => {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
  })
}

describe('TokenizerThreads', () => {
  it('texts on two threads at once - each gets its own tokens', async () => {
    const threads = start(2)
    const texts = [1, 200, 3000, 50, 3000, 7].map(textOf)
    const encoded = await Promise.all(texts.map((text) => threads.encode(MODEL, text, OPTIONS)))
    expect(encoded.map((ids) => [...ids])).toEqual(
      texts.map((text) => [...tokenizer.encode(text, OPTIONS)]),
    )
  })

  it('one thread - shorter waiting texts go first', async () => {
    const threads = start(1)
    const done: number[] = []
    const sizes = [100, 5000, 2, 800]
    await Promise.all(
      sizes.map(async (words) => {
        await threads.encode(MODEL, textOf(words), OPTIONS)
        done.push(words)
      }),
    )
    // The first text found the thread idle.
    expect(done).toEqual([100, 2, 800, 5000])
  })

  it('256 texts wait beside the running one - one more is refused, and nothing is lost', async () => {
    const threads = start(1)
    const waiting = Array.from({ length: 257 }, () => threads.encode(MODEL, 'a word', OPTIONS))
    await expect(threads.encode(MODEL, 'a word', OPTIONS)).rejects.toMatchObject({
      code: 'capacity.exhausted',
      data: { limit: 256 },
    })
    const expected = [...tokenizer.encode('a word', OPTIONS)]
    for (const ids of await Promise.all(waiting)) expect([...ids]).toEqual(expected)
  })

  it('a model that cannot be read - is reported, and the thread continues', async () => {
    const threads = start(1)
    await expect(threads.encode('/no/such/model', 'x', OPTIONS)).rejects.toMatchObject({
      code: 'model.load_failed',
    })
    expect((await threads.encode(MODEL, 'word', OPTIONS)).length).toBeGreaterThan(0)
  })

  it('a thread that stays idle - ends, and the next text gets a new one', async () => {
    const ends: Promise<unknown>[] = []
    const onWorker = (worker: Worker): void => void ends.push(once(worker, 'exit'))
    process.on('worker', onWorker)
    try {
      const threads = start(1, { idleMs: 1 })
      const first = await threads.encode(MODEL, 'a word', OPTIONS)
      await ends[0]
      expect([...(await threads.encode(MODEL, 'a word', OPTIONS))]).toEqual([...first])
      expect(ends.length).toBe(2)
    } finally {
      process.off('worker', onWorker)
    }
  })

  it('closed - running and waiting texts are refused', async () => {
    const threads = start(1)
    const all = [1, 2, 3].map(() => threads.encode(MODEL, textOf(1000), OPTIONS))
    const ends = Promise.allSettled(all)
    await threads.close()
    expect((await ends).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  })

  it.runIf(process.platform === 'linux')(
    'a thread - has a lower priority than the others',
    async () => {
      const before = Math.max(...niceValues())
      await start(1).encode(MODEL, 'word', OPTIONS)
      expect(Math.max(...niceValues())).toBeGreaterThan(Math.min(before, 18))
    },
  )
})
