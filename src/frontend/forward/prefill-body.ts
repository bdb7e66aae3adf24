/**
 * The body of the prefill leg of a request that is forwarded: the client's bytes without what is the decode leg's business,
 * so that both legs make the same tokens of the same prompt.
 */
import { asciiOf } from './json-members.ts'
import type { Member } from './json-members.ts'

/** Of the decode leg: how much is generated, and how it is shown. With any of them a server refuses one token whole. */
const OF_DECODE: ReadonlySet<string> = new Set([
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'min_tokens',
])

/** What a prefill leg asks for instead. */
export const PREFILL_FIELDS = '"stream":false,"max_tokens":1'

export function isOfDecode(key: string): boolean {
  return OF_DECODE.has(key)
}

/** One prompt, one answer. */
export function isDivisible(bytes: Uint8Array, top: readonly Member[]): boolean {
  return (
    isOne(bytes, top, 'n') &&
    isOne(bytes, top, 'best_of') &&
    !top.some(({ key }) => key === 'use_beam_search') &&
    hasOnePrompt(bytes, top)
  )
}

function isOne(bytes: Uint8Array, top: readonly Member[], name: string): boolean {
  const member = top.findLast(({ key }) => key === name)
  if (member === undefined) return true
  const text = asciiOf(bytes, member.valueStart, Math.min(member.end, member.valueStart + 8))
  return text === '1' || text === 'null'
}

/** Messages, a text or a list of ids; a list of texts is several prompts. */
function hasOnePrompt(bytes: Uint8Array, top: readonly Member[]): boolean {
  const prompt = top.findLast(({ key }) => key === 'prompt')
  if (prompt === undefined) return top.some(({ key }) => key === 'messages')
  const start = asciiOf(bytes, prompt.valueStart, Math.min(prompt.end, prompt.valueStart + 64))
  return /^(?:"|\[\s*\d)/.test(start)
}
