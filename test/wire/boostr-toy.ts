/**
 * A model for tests of the boostr protocol: the next token depends on all tokens so far, and the KV consists of
 * these tokens, so that any error in a hand-over changes the answer.
 */
import { TOKEN_EOS } from '../../src/boostr/index.ts'

/** Header of the KV: start position (u32) and 0 (u32). */
const HEAD_BYTES = 8

function nextToken(tokens: readonly bigint[]): bigint {
  let hash = 17n
  for (const token of tokens) hash = (hash * 31n + token + 7n) % 1_000_003n
  return hash % 23n === 0n ? TOKEN_EOS : hash % 1_000n
}

/** The answer of a single node without hand-over. */
export function singleNode(prompt: readonly bigint[], maxNewTokens: number): bigint[] {
  const output: bigint[] = []
  while (output.length < maxNewTokens) {
    const token = nextToken([...prompt, ...output])
    if (token === TOKEN_EOS) break
    output.push(token)
  }
  return output
}

export function kvOf(tokens: BigInt64Array): Uint8Array {
  const kv = new Uint8Array(HEAD_BYTES + tokens.byteLength)
  new DataView(kv.buffer).setUint32(0, tokens.length, true)
  kv.set(new Uint8Array(tokens.slice().buffer), HEAD_BYTES)
  return kv
}

export function decodeStep(kv: Uint8Array, lastToken: bigint, position: number) {
  const held = [...new BigInt64Array(kv.slice(HEAD_BYTES).buffer)]
  const tokens = position > held.length ? [...held, lastToken] : held
  return { tokenId: nextToken(tokens), kv: kvOf(BigInt64Array.from(tokens)) }
}
