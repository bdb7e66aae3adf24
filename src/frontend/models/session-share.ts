/** Which part of the versions of a model a session belongs to: the same in every frontend. */
import { mixedBits } from '../../base/index.ts'

/** Hashes a text to [0, 1) evenly (FNV-1a, mixed at the end). */
export function shareOf(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return mixedBits(hash) / 2 ** 32
}
