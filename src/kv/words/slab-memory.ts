/**
 * Memory for many arrays of 16 kB to 1 MB: stretches of few large arrays (slabs), so that it goes back to the operating
 * system when they go.
 *
 * Arrays of this size come from the heap of the C library, which returns nothing below the highest part that anybody
 * uses: an emptied table of 40 MB was still resident. An array above 32 MiB is mapped on its own (in glibc the maximum
 * of `M_MMAP_THRESHOLD`), and its pages take no memory until they are written.
 *
 * Owns which words of a slab are in use. When few of those ever written are, `toEmpty` says so, and whoever has long-lived
 * arrays there moves them out.
 */
const SLAB_WORDS = 33 << 18
/** While there are fewer words in all, they are arrays of their own: a small table needs no slab. */
const SLABS_FROM = 1 << 18
/** And so are shorter ones: the search for a free stretch would take longer if there were many. */
const WORDS_MIN = 1 << 12
/** A slab is emptied when fewer than one of so many written words are in use; not if less than this was written. */
const SPARSE = 8
const WRITTEN_MIN = 1 << 19

interface Slab {
  readonly words: Int32Array
  /** Free stretches in order, none next to another: where each begins and ends. */
  readonly starts: number[]
  readonly ends: number[]
  used: number
  /** Words from here on have never been used. */
  written: number
  isClosed: boolean
}

export class SlabMemory {
  #slabs: Slab[] = []
  #used = 0

  /** Bytes in use. */
  get bytes(): number {
    return 4 * this.#used
  }

  /** Bytes in use now or, in the same slabs, earlier: an upper bound of resident memory. */
  get writtenBytes(): number {
    let words = this.#used
    for (const { used, written } of this.#slabs) words += written - used
    return 4 * words
  }

  /** An array of so many words, all 0. */
  take(words: number): Int32Array {
    this.#used += words
    if (words < WORDS_MIN || this.#used < SLABS_FROM) return new Int32Array(words)
    for (const slab of this.#slabs) {
      const taken = slab.isClosed ? null : takeFrom(slab, words)
      if (taken !== null) return taken
    }
    const slab = createSlab(words)
    this.#slabs.push(slab)
    return takeFrom(slab, words) as Int32Array
  }

  /** Call once per array that was taken, when it is no longer used. */
  give(taken: Int32Array): void {
    this.#used -= taken.length
    const slab = this.#slabs.find(({ words }) => words.buffer === taken.buffer)
    if (slab === undefined) return
    giveTo(slab, taken.byteOffset >> 2, taken.length)
    if (slab.used === 0) this.#slabs = this.#slabs.filter((other) => other !== slab)
  }

  /** Gives an array and returns its copy. */
  move(taken: Int32Array): Int32Array {
    const moved = this.take(taken.length)
    moved.set(taken)
    this.give(taken)
    return moved
  }

  /** The buffer whose arrays are to be moved, or null. It takes no more until it is empty. */
  toEmpty(): ArrayBufferLike | null {
    for (const slab of this.#slabs) {
      if (slab.written < WRITTEN_MIN || SPARSE * slab.used >= slab.written) continue
      slab.isClosed = true
      return slab.words.buffer
    }
    return null
  }
}

function createSlab(words: number): Slab {
  const length = Math.max(SLAB_WORDS, words)
  return {
    words: new Int32Array(length),
    starts: [0],
    ends: [length],
    used: 0,
    written: 0,
    isClosed: false,
  }
}

/** The first free stretch that is long enough, because what is used at the beginning leaves the end unwritten. */
function takeFrom(slab: Slab, words: number): Int32Array | null {
  const { starts, ends } = slab
  for (let i = 0; i < starts.length; i++) {
    const start = starts[i] as number
    const end = start + words
    if (end > (ends[i] as number)) continue
    if (end === ends[i]) {
      starts.splice(i, 1)
      ends.splice(i, 1)
    } else starts[i] = end
    const taken = slab.words.subarray(start, end)
    taken.fill(0, 0, Math.max(0, slab.written - start))
    slab.written = Math.max(slab.written, end)
    slab.used += words
    return taken
  }
  return null
}

function giveTo(slab: Slab, start: number, words: number): void {
  const { starts, ends } = slab
  const end = start + words
  slab.used -= words
  let i = 0
  let after = starts.length
  while (i < after) {
    const middle = (i + after) >> 1
    if ((starts[middle] as number) < start) i = middle + 1
    else after = middle
  }
  const isNextFree = starts[i] === end
  if (i > 0 && ends[i - 1] === start) {
    ends[i - 1] = isNextFree ? (ends[i] as number) : end
    if (!isNextFree) return
    starts.splice(i, 1)
    ends.splice(i, 1)
  } else if (isNextFree) starts[i] = start
  else {
    starts.splice(i, 0, start)
    ends.splice(i, 0, end)
  }
}
