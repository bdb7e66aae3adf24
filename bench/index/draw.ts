/**
 * Numbers in [0, 1) that are the same in every run: a linear congruence, since millions are drawn and the quality of
 * none matters.
 */
export function createDraw(): () => number {
  let state = 1
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 4294967296
  }
}
