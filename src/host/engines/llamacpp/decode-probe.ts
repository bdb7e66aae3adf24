/**
 * Whether several sequences may decode in one batch without a bit of difference to each alone: tried, not assumed.
 *
 * It depends on the weights' type (q8_0 yes, f16 no) and on the machine; with more than one thread or a GPU it also
 * depends on the lengths, so there it is never taken for granted.
 */
import type { LlamaCppConfig } from './llamacpp-options.ts'
import type { DecodeItem, NativeSession } from './native-session.ts'

const PROMPT_TOKENS = 5
const SEQUENCES_TRIED = 4

export async function decodesAlikeTogether(
  session: NativeSession,
  config: LlamaCppConfig,
  token: number,
): Promise<boolean> {
  const count = Math.min(SEQUENCES_TRIED, config.sequences)
  if (count === 1) return true
  if (config.threads > 1 || config.gpu !== false || session.layout === undefined) return false
  const sampler = session.createSampler()
  sampler.applyConfig({ temperature: 0 })
  const logitsAt = async (index: number): Promise<string> => {
    const all = [[token], false, false, false, 64] as const
    const result = await session.context.sampleToken(index, sampler, false, false, all, true)
    return JSON.stringify([result[3], result[4]])
  }
  const items: DecodeItem[] = Array.from({ length: count }, (_, sequence) => ({
    sequence,
    position: PROMPT_TOKENS,
    token: token + sequence,
    wantsLogits: true,
  }))
  try {
    const prompt = new Uint32Array(PROMPT_TOKENS).fill(token)
    for (let sequence = 0; sequence < count; sequence++) await session.prefill(sequence, 0, prompt)
    const alone: string[] = []
    for (const item of items) {
      const [index = -1] = await session.decode([item])
      alone.push(await logitsAt(index))
      session.dropFrom(item.sequence, PROMPT_TOKENS)
    }
    const indexes = await session.decode(items)
    for (const [i, index] of indexes.entries()) {
      if ((await logitsAt(index)) !== alone[i]) return false
    }
    return true
  } finally {
    for (let sequence = 0; sequence < count; sequence++) session.clearSequence(sequence)
    sampler.dispose()
  }
}
