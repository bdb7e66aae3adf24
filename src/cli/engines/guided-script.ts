/**
 * The output of a simulated engine under guided decoding: a text of the grammar, drawn from prompt and seed, in
 * the model's tokens. The same request therefore has the same answer, also when it is continued on another
 * worker.
 */
import { seededRandom } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { guidedGrammar, textOfGrammar } from '../../text/index.ts'
import type { Tokenizer } from '../../text/index.ts'

/** The text is extended to at most this length, and never beyond what the request allows. */
const CHARACTERS_WANTED = 240

export function guidedScript(tokenizer: Tokenizer): (request: GenerateRequest) => Uint32Array {
  return (request) => {
    const { guided } = request.sampling
    if (guided === undefined) return new Uint32Array(0)
    const { maxTokens = CHARACTERS_WANTED } = request.stop
    const wanted = Math.min(CHARACTERS_WANTED, maxTokens + (request.resumedTokens ?? 0))
    const random = seededRandom(seedOf(request))
    const text = textOfGrammar(guidedGrammar(guided), () => random.next(), wanted)
    return tokenizer.encode(text, { special: true })
  }
}

/** Derived from the prompt alone: tokens from an earlier worker are output and do not count. */
function seedOf({ tokenIds, resumedTokens = 0, sampling }: GenerateRequest): number {
  let hash = 0x811c9dc5 ^ (sampling.seed ?? 0)
  for (const id of tokenIds.subarray(0, tokenIds.length - resumedTokens))
    hash = Math.imul(hash ^ id, 0x01000193)
  return hash >>> 0
}
