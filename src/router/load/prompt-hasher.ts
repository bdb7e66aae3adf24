/** Block hashes of prompts, computed once per request for both pools. */
import { hashBlocks } from '../../kv/index.ts'
import type { BlockHashes } from '../../kv/index.ts'
import type { GenerateRequest } from '../../request/index.ts'

interface Entry {
  readonly blockSize: number
  readonly loraName: string | undefined
  readonly salt: string | undefined
  readonly hashes: BlockHashes
}

export class PromptHasher {
  /** The legs of a request share the token array, so the array is the key; the entry is collected with it. */
  readonly #known = new WeakMap<Uint32Array, Entry>()

  hash(request: GenerateRequest, blockSize: number): BlockHashes {
    const { tokenIds } = request
    const { loraName, cacheSalt: salt } = request.routing
    const known = this.#known.get(tokenIds)
    if (
      known !== undefined &&
      known.blockSize === blockSize &&
      known.loraName === loraName &&
      known.salt === salt
    ) {
      return known.hashes
    }
    const hashes = hashBlocks(tokenIds, blockSize, {
      ...(loraName === undefined ? {} : { loraName }),
      ...(salt === undefined ? {} : { salt }),
    })
    this.#known.set(tokenIds, { blockSize, loraName, salt, hashes })
    return hashes
  }
}
