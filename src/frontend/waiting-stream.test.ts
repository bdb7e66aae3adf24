import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'

const STREAMS = 30
const PROMPT_CHARACTERS = 60_000
const STEADY_BYTES = 50_000

/**
 * Bytes in use when garbage collections free nothing more: some objects, and code that is not used any more, are freed
 * only by a later one.
 */
async function collectedHeapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  let steady = 0
  let bytes = Infinity
  for (let i = 0; i < 40 && steady < 4; i++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
    const now = getHeapStatistics().used_heap_size
    steady = now < bytes - STEADY_BYTES ? 0 : steady + 1
    bytes = now
  }
  return bytes
}

/** A different text for each `nth`. */
function longText(nth: number): string {
  let text = `story ${nth}`
  for (let i = 0; text.length < PROMPT_CHARACTERS; i++) text += ` word${(i * 7 + nth) % 40}`
  return text
}

describe('a running stream', () => {
  it('memory - the texts of its prompt are freed before its end', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.says('Once'),
      engine: { contextLength: 1_000_000 },
    })
    for (let nth = 0; nth < STREAMS; nth++) {
      const prompt = longText(nth)
      const messages = [{ role: 'user', content: prompt }]
      const answer = await (nth % 2 === 0
        ? it_.chat({ stream: true, messages })
        : it_.completion({ stream: true, prompt }))
      expect(answer.status).toBe(200)
    }
    // The tokenizer's cache of long texts remains in both cases.
    const running = await collectedHeapBytes()
    for (const run of it_.runs.splice(0)) run.ends()
    const held = (running - (await collectedHeapBytes())) / STREAMS
    expect(it_.ends).toHaveLength(STREAMS)
    expect(held).toBeLessThan(PROMPT_CHARACTERS / 2)
  })

  it('speculative_prefill - the messages are kept until the answer is complete', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.says('Once') })
    await it_.chat({ stream: true, nvext: { agent_hints: { speculative_prefill: true } } })
    it_.runs[0]?.ends()
    await it_.clock.run(1)
    const [first, next] = it_.requests.map(({ tokenIds }) =>
      storyteller().tokenizer.decode(tokenIds, { skipSpecialTokens: false }),
    )
    expect(next).toContain(`${first}Once`)
  })
})
