/**
 * Which neighbouring symbols of a SentencePiece vocabulary may be merged, and in which order: by the score of the
 * merged token (GGUF) or by the rank of the merge (`tokenizer.json`).
 *
 * A symbol is a token id, or `vocabSize + n` for the n-th character of the current piece that has no token.
 */
import type { PairRanks } from './merge-loop.ts'
import type { MergeTable } from './merge-table.ts'

export interface SymbolPairs extends PairRanks {
  symbolOf(character: string): number
  characterOf(symbol: number): string
  /** Call before the next piece. */
  forgetCharacters(): void
}

/** The symbols of the characters of one piece; those without a token are numbered after the vocabulary. */
class PieceSymbols {
  readonly #vocabSize: number
  readonly #ids: ReadonlyMap<string, number>
  readonly #unknown: string[] = []

  constructor(vocabSize: number, ids: ReadonlyMap<string, number>) {
    this.#vocabSize = vocabSize
    this.#ids = ids
  }

  symbolOf(character: string): number {
    return this.#ids.get(character) ?? this.#vocabSize + this.#unknown.push(character) - 1
  }

  characterOf(symbol: number): string {
    return this.#unknown[symbol - this.#vocabSize] ?? ''
  }

  forgetCharacters(): void {
    this.#unknown.length = 0
  }
}

export class MergePairs extends PieceSymbols implements SymbolPairs {
  readonly #merges: MergeTable

  constructor(vocabSize: number, ids: ReadonlyMap<string, number>, merges: MergeTable) {
    super(vocabSize, ids)
    this.#merges = merges
  }

  rank(left: number, right: number): number {
    return this.#merges.rank(left, right)
  }

  merged(rank: number): number {
    return this.#merges.merged(rank)
  }
}

export class ScorePairs extends PieceSymbols implements SymbolPairs {
  readonly #names: readonly string[]
  readonly #ids: ReadonlyMap<string, number>
  /** Token id → rank: position of its score among all scores, best first; equal scores share a rank. */
  readonly #rankOf: Int32Array

  constructor(
    names: readonly string[],
    ids: ReadonlyMap<string, number>,
    scores: ArrayLike<number>,
  ) {
    super(names.length, ids)
    this.#names = names
    this.#ids = ids
    this.#rankOf = new Int32Array(names.length).fill(-1)
    const score = (id: number): number => scores[id] ?? 0
    const sorted = [...ids.values()].sort((a, b) => score(b) - score(a))
    let rank = -1
    let last: number | null = null
    for (const id of sorted) {
      if (score(id) !== last) rank++
      last = score(id)
      this.#rankOf[id] = rank
    }
  }

  rank(left: number, right: number): number {
    const id = this.#ids.get(this.#text(left) + this.#text(right))
    return id === undefined ? -1 : this.#rankOf[id]!
  }

  merged(_rank: number, left: number, right: number): number {
    return this.#ids.get(this.#text(left) + this.#text(right)) ?? left
  }

  #text(symbol: number): string {
    return symbol < this.#names.length ? this.#names[symbol]! : this.characterOf(symbol)
  }
}
