/** Decodes many ids to one text. */
import type { Tokenizer } from './tokenizer.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export function decodeTokens(
  tokenizer: Tokenizer,
  ids: ArrayLike<number>,
  skipSpecialTokens: boolean,
): string {
  const parts: Uint8Array[] = []
  let length = 0
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!
    const isNamed = !skipSpecialTokens && tokenizer.isSpecial(id)
    const bytes = isNamed ? encoder.encode(tokenizer.tokenName(id)) : tokenizer.tokenBytes(id)
    parts.push(bytes)
    length += bytes.length
  }
  const all = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return decoder.decode(all)
}
