/** Block hashes of prompts, computed once per request for both pools. */
import { hashSequence } from '../../kv/index.ts'
import type { SequenceHashes } from '../../kv/index.ts'
import type { GenerateRequest, Phase } from '../../request/index.ts'

interface Entry {
  readonly tokenIds: Uint32Array | null
  readonly blockSize: number
  readonly loraName: string | undefined
  readonly salt: string | undefined
  readonly hashes: SequenceHashes
}

export class PromptHasher {
  /** The legs of a request share the token array, so the array is the key; the entry is collected with it. */
  readonly #known = new WeakMap<Uint32Array, Entry>()
  /** The last aggregated request: it has one leg and is not hashed again later, and WeakMap entries slow down each GC. */
  #last: Entry | null = null

  hash(request: GenerateRequest, blockSize: number, phase: Phase): SequenceHashes {
    const { tokenIds } = request
    const { loraName, cacheSalt: salt } = request.routing
    const isOneLeg = phase === 'aggregated'
    const known = isOneLeg ? this.#last : this.#known.get(tokenIds)
    if (
      known !== undefined &&
      known !== null &&
      known.blockSize === blockSize &&
      known.loraName === loraName &&
      known.salt === salt &&
      (!isOneLeg || known.tokenIds === tokenIds)
    ) {
      return known.hashes
    }
    const names = {
      ...(loraName === undefined ? {} : { loraName }),
      ...(salt === undefined ? {} : { salt }),
    }
    const hashes = { sequence: hashSequence(tokenIds, blockSize, names) }
    if (isOneLeg) this.#last = { tokenIds, blockSize, loraName, salt, hashes }
    // Without the tokens: the map would keep what it is to let go.
    else this.#known.set(tokenIds, { tokenIds: null, blockSize, loraName, salt, hashes })
    return hashes
  }
}
