/** Repeatable random numbers from 0 to 1; the seed is a text, usually the subject of the test. */
export function seededDraw(seed: string): { readonly random: () => number } {
  let state = 2166136261
  for (let i = 0; i < seed.length; i++) state = Math.imul(state ^ seed.charCodeAt(i), 16777619)
  return {
    random: () => {
      state = (Math.imul(state, 1664525) + 1013904223) | 0
      return ((state >>> 8) & 0xffffff) / 0x1000000
    },
  }
}
