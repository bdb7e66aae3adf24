/**
 * The first line of an error message of a reader, a parser or the system, which is what a user is shown.
 */
import { messageOf } from '../../base/index.ts'

export function firstLineOf(error: unknown): string {
  return messageOf(error).split('\n')[0] ?? ''
}
