/**
 * Prompts that an engine answers differently, to find answers that were mixed up. Only ids that the engine is known to
 * accept. They differ in their order and in how often they begin, so that an engine that repeats its prompt, in whatever
 * direction, answers each of them differently, too.
 */
export const PROMPTS = 4

export function variantOf(tokenIds: Uint32Array, which: number): Uint32Array {
  const { length } = tokenIds
  return Uint32Array.from(
    { length: length + which },
    (_, at) => tokenIds[(which + Math.max(at - which, 0)) % length] ?? 0,
  )
}
