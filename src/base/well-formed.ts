/** Missing in the library of the language version that the build uses. */
type WellFormable = string & { toWellFormed(): string }

/** Replaces unpaired surrogates by U+FFFD, one for one, so that indexes stay valid. */
export function wellFormed(text: string): string {
  return (text as WellFormable).toWellFormed()
}
