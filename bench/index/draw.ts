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
