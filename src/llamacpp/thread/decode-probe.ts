/**
 * Tests whether several sequences can decode in one batch with exactly the same bits as each alone.
 *
 * It depends on the type of the weights, the library and the machine, and on the length of the context: both the
 * short and the long code path of llama.cpp's attention are tested. For the long one KV is copied together instead
 * of being computed.
 */
import { CELLS_STEP } from '../native/llama-session.ts'
import type { DecodeItem, LlamaSession } from '../native/llama-session.ts'
import { assembleState, cutBlock, parseState } from '../state/state-codec.ts'
import type { KvLayout } from '../state/state-layout.ts'

const PROMPT_TOKENS = 5
const SEQUENCES_TRIED = 4
/** More than one step of cells, also for a context size that is rounded up. */
const LONG_TOKENS = CELLS_STEP + 64

interface ProbeOptions {
  readonly sequences: number
  readonly contextLength: number
  readonly layout: KvLayout
  /** Any valid token of the model. */
  readonly token: number
}

export function decodesAlikeTogether(session: LlamaSession, options: ProbeOptions): boolean {
  const { sequences, contextLength, layout, token } = options
  const count = Math.min(SEQUENCES_TRIED, sequences)
  if (count === 1) return true
  try {
    const prompt = new Uint32Array(PROMPT_TOKENS).fill(token)
    for (let sequence = 0; sequence < count; sequence++) session.prefill(sequence, 0, prompt)
    if (!isAlike(session, count, PROMPT_TOKENS, token)) return false
    if (contextLength <= LONG_TOKENS) return true
    const bytes = cutBlock(parseState(session.saveState(0)), 0, PROMPT_TOKENS)
    const copies = Math.ceil(LONG_TOKENS / PROMPT_TOKENS)
    const blocks = Array.from({ length: copies }, () => ({ bytes, tokenCount: PROMPT_TOKENS }))
    const state = assembleState(layout, blocks, session.streamCount)
    for (let sequence = 0; sequence < count; sequence++) {
      session.clearSequence(sequence)
      if (!session.loadState(sequence, state)) return false
    }
    return isAlike(session, count, copies * PROMPT_TOKENS, token)
  } finally {
    for (let sequence = 0; sequence < count; sequence++) session.clearSequence(sequence)
  }
}

function isAlike(session: LlamaSession, count: number, position: number, token: number): boolean {
  const items: DecodeItem[] = Array.from({ length: count }, (_, sequence) => ({
    sequence,
    position,
    token: token + sequence,
    wantsLogits: true,
  }))
  const drop = (): void => items.forEach(({ sequence }) => session.dropFrom(sequence, position))
  const { vocabSize } = session
  const alone = items.map((item) => {
    session.decode([item])
    return session.logits.slice(0, vocabSize)
  })
  drop()
  session.decode(items)
  const together = session.logits.slice(0, count * vocabSize)
  drop()
  return alone.every((row, i) => haveSameBits(row, together.subarray(i * vocabSize)))
}

function haveSameBits(row: Float32Array, others: Float32Array): boolean {
  const a = new Uint32Array(row.buffer, row.byteOffset, row.length)
  const b = new Uint32Array(others.buffer, others.byteOffset, row.length)
  return a.every((word, i) => word === b[i])
}
