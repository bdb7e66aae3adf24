/**
 * The merge loop of BPE and SPM: in a sequence of symbols the best neighbouring pair is merged until no pair can be.
 * The caller defines "best" by a rank: lower is better, the leftmost first among equals.
 *
 * A short sequence is searched again for each merge; a long one (base64, a line without blanks) uses a heap.
 */
export interface PairRanks {
  /** Rank of merging two symbols, or -1 if they cannot be merged. */
  rank(left: number, right: number): number
  /** The symbol that results from a merge of this rank. Different pairs may share a rank. */
  merged(rank: number, left: number, right: number): number
}

const SHORT_SYMBOLS = 48

/** Merges `symbols[0..count)` in place; returns how many are left, at the front of the array. */
export function mergeSymbols(symbols: Int32Array, count: number, ranks: PairRanks): number {
  return count <= SHORT_SYMBOLS
    ? mergeShort(symbols, count, ranks)
    : mergeLong(symbols, count, ranks)
}

const shortRanks = new Int32Array(SHORT_SYMBOLS)

function mergeShort(symbols: Int32Array, count: number, ranks: PairRanks): number {
  for (let i = 0; i + 1 < count; i++) shortRanks[i] = ranks.rank(symbols[i]!, symbols[i + 1]!)
  while (count > 1) {
    let best = -1
    let at = 0
    for (let i = 0; i + 1 < count; i++) {
      const rank = shortRanks[i]!
      if (rank >= 0 && (best < 0 || rank < best)) {
        best = rank
        at = i
      }
    }
    if (best < 0) break
    symbols[at] = ranks.merged(best, symbols[at]!, symbols[at + 1]!)
    symbols.copyWithin(at + 1, at + 2, count)
    shortRanks.copyWithin(at + 1, at + 2, count - 1)
    count--
    if (at > 0) shortRanks[at - 1] = ranks.rank(symbols[at - 1]!, symbols[at]!)
    if (at + 1 < count) shortRanks[at] = ranks.rank(symbols[at]!, symbols[at + 1]!)
  }
  return count
}

function mergeLong(symbols: Int32Array, count: number, ranks: PairRanks): number {
  const next = new Int32Array(count)
  const previous = new Int32Array(count)
  const heap = new PairHeap(count)
  const offer = (left: number): void => {
    const right = left < 0 ? count : next[left]!
    if (right >= count) return
    const rank = ranks.rank(symbols[left]!, symbols[right]!)
    if (rank >= 0) heap.push(rank, left)
  }
  for (let i = 0; i < count; i++) {
    next[i] = i + 1
    previous[i] = i - 1
  }
  for (let i = 0; i + 1 < count; i++) offer(i)
  for (let left = heap.pop(); left >= 0; left = heap.pop()) {
    const right = symbols[left] === GONE ? count : next[left]!
    if (right >= count) continue
    // A heap entry is stale if the pair at its position now has another rank.
    if (ranks.rank(symbols[left]!, symbols[right]!) !== heap.poppedRank) continue
    symbols[left] = ranks.merged(heap.poppedRank, symbols[left]!, symbols[right]!)
    symbols[right] = GONE
    const after = next[right]!
    next[left] = after
    if (after < count) previous[after] = left
    offer(previous[left]!)
    offer(left)
  }
  let kept = 0
  for (let i = 0; i < count; i = next[i]!) symbols[kept++] = symbols[i]!
  return kept
}

const GONE = -1

/** Binary heap of (rank, position), each packed into one double: lowest rank first, then leftmost. */
class PairHeap {
  poppedRank = 0
  readonly #places: number
  #keys: Float64Array
  #size = 0

  constructor(places: number) {
    this.#places = places
    this.#keys = new Float64Array(places * 2)
  }

  push(rank: number, place: number): void {
    if (this.#size === this.#keys.length) {
      const wider = new Float64Array(this.#size * 2)
      wider.set(this.#keys)
      this.#keys = wider
    }
    const keys = this.#keys
    const key = rank * this.#places + place
    let at = this.#size++
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (keys[parent]! <= key) break
      keys[at] = keys[parent]!
      at = parent
    }
    keys[at] = key
  }

  /** Position of the best pair, or -1; its rank is in `poppedRank`. */
  pop(): number {
    if (this.#size === 0) return -1
    const keys = this.#keys
    const top = keys[0]!
    const last = keys[--this.#size]!
    let at = 0
    for (let child = 1; child < this.#size; child = at * 2 + 1) {
      if (child + 1 < this.#size && keys[child + 1]! < keys[child]!) child++
      if (keys[child]! >= last) break
      keys[at] = keys[child]!
      at = child
    }
    keys[at] = last
    this.poppedRank = Math.floor(top / this.#places)
    return top - this.poppedRank * this.#places
  }
}
