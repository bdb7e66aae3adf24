/**
 * The first line of an error message of a reader, a parser or the system, which is what a user is shown.
 */
export function firstLineOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
}
