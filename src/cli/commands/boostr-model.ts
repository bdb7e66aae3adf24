/**
 * What the prefill and decode roles of `baton boostr` compute: the user's module, or a toy that needs no model.
 *
 * A module exports `prefill` (a `PrefillFunction`) for the prefill role and `decodeStep` (a
 * `DecodeStepFunction`) for the decode role. The toy's next token depends on all tokens before it, and its KV
 * is those tokens, so any fault of a KV transfer changes the answer.
 */
import { BatonError } from '../../base/index.ts'
import { TOKEN_EOS } from '../../boostr/index.ts'
import type { DecodeStepFunction, PrefillFunction } from '../../boostr/index.ts'
import { importUserModule } from '../options/user-module.ts'

interface BoostrModel {
  readonly prefill: PrefillFunction
  readonly decodeStep: DecodeStepFunction
}

/** u32 token count, which the dialect reads as the start position, and a u32 that is 0. */
const HEAD_BYTES = 8
const LETTERS = 26n

export const TOY_MODEL: BoostrModel = {
  prefill: (tokenIds, done) => done(kvOf(tokenIds)),
  decodeStep: (kv, lastToken, position) => {
    const held = [...new BigInt64Array(kv.slice(HEAD_BYTES).buffer)]
    const tokens = position > held.length ? [...held, lastToken] : held
    return { tokenId: toyToken(tokens), kv: kvOf(BigInt64Array.from(tokens)) }
  },
}

/** The code point of a letter, or the end of the sequence. */
export function toyToken(tokens: readonly bigint[]): bigint {
  let hash = 17n
  for (const token of tokens) hash = (hash * 31n + token + 7n) % 1_000_003n
  return hash % 41n === 0n ? TOKEN_EOS : 97n + (hash % LETTERS)
}

function kvOf(tokens: BigInt64Array): Uint8Array {
  const kv = new Uint8Array(HEAD_BYTES + tokens.byteLength)
  new DataView(kv.buffer).setUint32(0, tokens.length, true)
  kv.set(new Uint8Array(tokens.slice().buffer), HEAD_BYTES)
  return kv
}

/** Throws `config.invalid` when the file is not such a module. Null: the toy is used. */
export async function loadBoostrModel<Name extends keyof BoostrModel>(
  path: string | null,
  name: Name,
): Promise<BoostrModel[Name]> {
  if (path === null) return TOY_MODEL[name]
  const exported = await importUserModule(path, `--module ${path}`)
  const found = exported[name]
  if (typeof found === 'function') return found as BoostrModel[Name]
  throw new BatonError('config.invalid', `--module ${path}: exports no function ${name}`)
}
