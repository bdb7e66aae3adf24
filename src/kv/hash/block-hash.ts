/**
 * Hashes of a prompt's KV blocks: the keys that the router looks up, workers announce, and KV blocks are stored
 * under.
 *
 * Owns the local hash (content of one block) and the sequence hash (content of the whole prefix up to and including
 * the block), both XXH3-64 as (low, high) pairs of u32. `hashBlocks` ignores a trailing partial block; `hashPartial`
 * hashes one. Invariant: the first sequence hash equals the first local hash. LoRA name, salt and pictures affect
 * only the local hashes directly. Compatible with Dynamo's block hashes.
 */
import { BatonError } from '../../base/index.ts'
import { blockSeed, PLAIN_SEED } from './block-seed.ts'
import type { SeedNames } from './block-seed.ts'
import type { HashPair } from './hash-pair.ts'
import {
  BLOCKS_MAX,
  chainLocals,
  hashInput,
  hashWindows,
  INPUT_BYTES_MAX,
  inputWords,
  link,
  locals,
  result,
  sequences,
} from './xxh3-kernel.ts'

export interface BlockHashOptions extends SeedNames {
  /** Hash each block together with the first token of the next one (EAGLE draft models). */
  readonly bigram?: boolean
  /** For each block the hashes (low, high) of its pictures in any order; their positions are not hashed. */
  readonly mediaHashes?: readonly (Uint32Array | null | undefined)[]
}

export interface SequenceHashes {
  /** Hash of the prompt up to and including each block; (low, high) pairs. */
  readonly sequence: Uint32Array
}

export interface BlockHashes extends SequenceHashes {
  /** Hash of each block's own content; (low, high) pairs. */
  readonly local: Uint32Array
}

const WORDS_MAX = INPUT_BYTES_MAX / 4

/** Number of complete blocks; with `bigram` a block also needs the token after it. */
function countBlocks(tokenCount: number, blockTokens: number, bigram = false): number {
  return Math.floor(Math.max(0, tokenCount - (bigram ? 1 : 0)) / blockTokens)
}

/** Local and sequence hashes of all complete blocks, in order. */
export function hashBlocks(
  tokenIds: Uint32Array,
  blockTokens: number,
  options: BlockHashOptions = {},
): BlockHashes {
  const local = hashesFor(tokenIds, blockTokens, options)
  return { local, sequence: hashedSequence(tokenIds, blockTokens, options, local) }
}

/** The sequence hashes of `hashBlocks` alone: all that a router needs, with half of the memory. */
export function hashSequence(
  tokenIds: Uint32Array,
  blockTokens: number,
  options: BlockHashOptions = {},
): Uint32Array {
  return hashedSequence(tokenIds, blockTokens, options, null)
}

function hashesFor(
  tokenIds: Uint32Array,
  blockTokens: number,
  { bigram = false }: BlockHashOptions,
): Uint32Array {
  checkWindow(blockTokens, blockTokens + (bigram ? 1 : 0))
  return new Uint32Array(2 * countBlocks(tokenIds.length, blockTokens, bigram))
}

/** Writes the local hashes to `local` unless it is null. */
function hashedSequence(
  tokenIds: Uint32Array,
  blockTokens: number,
  options: BlockHashOptions,
  local: Uint32Array | null,
): Uint32Array {
  const windowTokens = blockTokens + (options.bigram === true ? 1 : 0)
  const sequence = hashesFor(tokenIds, blockTokens, options)
  const count = sequence.length / 2
  const seed = blockSeed(options)
  // As many blocks as fit into the kernel's input at once; the sequence hash is chained from piece to piece.
  const pieceBlocks = Math.min(BLOCKS_MAX, Math.floor((WORDS_MAX - windowTokens) / blockTokens) + 1)
  for (let from = 0; from < count; from += pieceBlocks) {
    const blocks = Math.min(pieceBlocks, count - from)
    const begin = from * blockTokens
    const tokens = (blocks - 1) * blockTokens + windowTokens
    inputWords.set(
      begin === 0 && tokens === tokenIds.length
        ? tokenIds
        : tokenIds.subarray(begin, begin + tokens),
    )
    hashWindows(blocks, 4 * blockTokens, 4 * windowTokens, seed[0], seed[1])
    if (options.mediaHashes !== undefined) {
      hashMediaBlocks(tokenIds, { from, blocks, blockTokens, windowTokens, seed }, options)
    }
    chainLocals(blocks, from > 0, PLAIN_SEED[0], PLAIN_SEED[1])
    local?.set(locals.subarray(0, 2 * blocks), 2 * from)
    sequence.set(sequences.subarray(0, 2 * blocks), 2 * from)
  }
  return sequence
}

/**
 * Sequence hash of a block that may be incomplete, after the block with the hash (parentLow, parentHigh); null
 * `parentHigh`: it is the first block. An incomplete block never has the hash of a complete one.
 */
export function hashPartial(
  parentLow: number,
  parentHigh: number | null,
  tokenIds: Uint32Array,
  names: SeedNames = {},
): HashPair {
  checkWindow(tokenIds.length, tokenIds.length)
  const seed = blockSeed(names)
  inputWords.set(tokenIds)
  hashWindows(1, 0, 4 * tokenIds.length, seed[0], seed[1])
  if (parentHigh !== null) {
    link[0] = parentLow
    link[1] = parentHigh
  }
  chainLocals(1, parentHigh !== null, PLAIN_SEED[0], PLAIN_SEED[1])
  return [sequences[0] ?? 0, sequences[1] ?? 0]
}

/** Sequence hashes of blocks whose local hashes are known, after `parent` or (null) from the start of a prompt. */
export function chainSequence(localHashes: Uint32Array, parent: HashPair | null): Uint32Array {
  const sequence = new Uint32Array(localHashes.length)
  if (parent !== null) link.set(parent)
  for (let from = 0; from < localHashes.length; from += 2 * BLOCKS_MAX) {
    const piece = localHashes.subarray(from, from + 2 * BLOCKS_MAX)
    locals.set(piece)
    chainLocals(piece.length >> 1, from > 0 || parent !== null, PLAIN_SEED[0], PLAIN_SEED[1])
    sequence.set(sequences.subarray(0, piece.length), from)
  }
  return sequence
}

function checkWindow(blockTokens: number, windowTokens: number): void {
  if (Number.isInteger(blockTokens) && blockTokens >= 1 && windowTokens <= WORDS_MAX) return
  throw new BatonError(
    'config.invalid',
    `the block size is invalid: expected 1 to ${WORDS_MAX - 1} tokens, got ${blockTokens}`,
  )
}

interface Piece {
  readonly from: number
  readonly blocks: number
  readonly blockTokens: number
  readonly windowTokens: number
  readonly seed: HashPair
}

/** Computes again, one by one, the local hashes of blocks with pictures: the picture hashes follow the tokens, sorted. */
function hashMediaBlocks(tokenIds: Uint32Array, piece: Piece, options: BlockHashOptions): void {
  for (let i = 0; i < piece.blocks; i++) {
    const media = options.mediaHashes?.[piece.from + i]
    if (media === null || media === undefined || media.length === 0) continue
    const begin = (piece.from + i) * piece.blockTokens
    const words = piece.windowTokens + media.length
    if (words > WORDS_MAX) {
      throw new BatonError(
        'request.invalid_argument',
        'a block of the prompt contains too many images',
      )
    }
    inputWords.set(tokenIds.subarray(begin, begin + piece.windowTokens))
    inputWords.set(sortPairs(media), piece.windowTokens)
    hashInput(4 * words, piece.seed[0], piece.seed[1])
    locals.set(result, 2 * i)
  }
}

function sortPairs(pairs: Uint32Array): Uint32Array {
  const order = Array.from({ length: pairs.length >> 1 }, (_, i) => [
    pairs[2 * i] ?? 0,
    pairs[2 * i + 1] ?? 0,
  ])
  order.sort((a, b) => (a[1] ?? 0) - (b[1] ?? 0) || (a[0] ?? 0) - (b[0] ?? 0))
  return Uint32Array.from(order.flat())
}
