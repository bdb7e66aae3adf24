/**
 * What a simulated engine says when it is held to a shape: a text of the grammar, drawn from prompt and seed, in the tokens of
 * the model. So the same request has the same answer, also when it goes on at another worker.
 */
import { seededRandom } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { guidedGrammar, textOfGrammar } from '../../text/index.ts'
import type { Tokenizer } from '../../text/index.ts'

/** A text is not drawn out beyond this, nor beyond what the request allows. */
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

/** Of the prompt alone: tokens of an earlier worker are output. */
function seedOf({ tokenIds, resumedTokens = 0, sampling }: GenerateRequest): number {
  let hash = 0x811c9dc5 ^ (sampling.seed ?? 0)
  for (const id of tokenIds.subarray(0, tokenIds.length - resumedTokens))
    hash = Math.imul(hash ^ id, 0x01000193)
  return hash >>> 0
}
