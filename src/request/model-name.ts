/** Limits for values in a card that appear on lines of logs and in every list of models, or that size a buffer. */
import { printable } from '../base/index.ts'

export const NAME_CHARACTERS_MAX = 1024

/** Block hashes are computed for at most so many tokens per block. */
export const BLOCK_TOKENS_MAX = 65_535

/** A name of a model or adapter: one line of text without control characters. */
export function isModelName(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value !== '' &&
    value.length <= NAME_CHARACTERS_MAX &&
    printable(value) === value
  )
}
