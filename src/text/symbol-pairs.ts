/**
 * Which neighbouring symbols of a SentencePiece vocabulary may be joined, and what comes first: by the score of the
 * joined token (GGUF) or by the rank of the merge (`tokenizer.json`).
 *
 * A symbol is a token id, or `vocabSize + n` for the n-th character of the piece at hand that has no token.
 */
import type { PairRanks } from './merge-loop.ts'
import type { MergeTable } from './merge-table.ts'

export interface SymbolPairs extends PairRanks {
  symbolOf(character: string): number
  characterOf(symbol: number): string
  /** Before the next piece. */
  forgetCharacters(): void
}

/** Characters of one piece that have no token, numbered behind the vocabulary. */
class UnknownCharacters {
  readonly #vocabSize: number
  readonly #characters: string[] = []

  constructor(vocabSize: number) {
    this.#vocabSize = vocabSize
  }

  add(character: string): number {
    this.#characters.push(character)
    return this.#vocabSize + this.#characters.length - 1
  }

  get(symbol: number): string {
    return this.#characters[symbol - this.#vocabSize] ?? ''
  }

  clear(): void {
    this.#characters.length = 0
  }
}

export class MergePairs implements SymbolPairs {
  readonly #ids: ReadonlyMap<string, number>
  readonly #merges: MergeTable
  readonly #unknown: UnknownCharacters

  constructor(vocabSize: number, ids: ReadonlyMap<string, number>, merges: MergeTable) {
    this.#ids = ids
    this.#merges = merges
    this.#unknown = new UnknownCharacters(vocabSize)
  }

  symbolOf(character: string): number {
    return this.#ids.get(character) ?? this.#unknown.add(character)
  }

  characterOf(symbol: number): string {
    return this.#unknown.get(symbol)
  }

  forgetCharacters(): void {
    this.#unknown.clear()
  }

  rank(left: number, right: number): number {
    return this.#merges.rank(left, right)
  }

  merged(rank: number): number {
    return this.#merges.merged(rank)
  }
}

export class ScorePairs implements SymbolPairs {
  readonly #names: readonly string[]
  readonly #ids: ReadonlyMap<string, number>
  /** Token id → rank: the place of its score among all scores, best first; equal scores share it. */
  readonly #rankOf: Int32Array
  readonly #unknown: UnknownCharacters

  constructor(
    names: readonly string[],
    ids: ReadonlyMap<string, number>,
    scores: ArrayLike<number>,
  ) {
    this.#names = names
    this.#ids = ids
    this.#unknown = new UnknownCharacters(names.length)
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

  symbolOf(character: string): number {
    return this.#ids.get(character) ?? this.#unknown.add(character)
  }

  characterOf(symbol: number): string {
    return this.#unknown.get(symbol)
  }

  forgetCharacters(): void {
    this.#unknown.clear()
  }

  rank(left: number, right: number): number {
    const id = this.#ids.get(this.#text(left) + this.#text(right))
    return id === undefined ? -1 : this.#rankOf[id]!
  }

  merged(_rank: number, left: number, right: number): number {
    return this.#ids.get(this.#text(left) + this.#text(right)) ?? left
  }

  #text(symbol: number): string {
    return symbol < this.#names.length ? this.#names[symbol]! : this.#unknown.get(symbol)
  }
}
