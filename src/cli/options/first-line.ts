/**
 * What a reader, a parser or the system says is wrong, as the one line that a user is shown.
 */
export function firstLineOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
}
