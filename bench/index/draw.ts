/**
 * Pseudo-random numbers in [0, 1), the same in every run: a linear congruential generator, because millions are
 * drawn and their quality does not matter.
 */
export function createDraw(): () => number {
  let state = 1
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 4294967296
  }
}

/** Shuffles `count` words of an array from `first` on. */
export function shuffle(order: Int32Array, first: number, count: number, draw: () => number): void {
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(draw() * (i + 1))
    const kept = order[first + i] as number
    order[first + i] = order[first + j] as number
    order[first + j] = kept
  }
}
