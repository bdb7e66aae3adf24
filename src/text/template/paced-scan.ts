/**
 * Looks at the characters of a text in steps, between which other work may run. A hostile text has a match at every
 * second character of tens of megabytes, so a match costs no call of a regular expression and no object.
 */

/** Characters that are looked at one by one before the next candidate is searched; more where candidates are dense. */
const RUN_LEAST = 8
const RUN_MOST = 512
/** Characters between two pauses: some milliseconds. */
const STEP = 200_000

/** Counts work; true when it is time for a pause. */
export class Pace {
  #left = STEP

  spend(characters: number): boolean {
    this.#left -= characters
    if (this.#left > 0) return false
    this.#left = STEP
    return true
  }
}

export function withoutPauses<Result>(steps: Iterator<undefined, Result>): Result {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

export interface Scanned {
  /** No candidate is in this part of the text. */
  skip?(from: number, to: number): void
  /** Returns where the scan continues: `to`, a little later, or the end of the text. */
  look(from: number, to: number): number
}

/** `candidates` has the flag `g`; it finds where a closer look begins. */
export function* scan(
  text: string,
  candidates: RegExp,
  scanned: Scanned,
  pace: Pace,
): Generator<undefined, void> {
  let run = RUN_LEAST
  for (let at = 0; at < text.length;) {
    candidates.lastIndex = at
    const from = candidates.exec(text)?.index ?? text.length
    scanned.skip?.(at, from)
    if (from === text.length) return
    run = from - at <= run ? Math.min(RUN_MOST, 2 * run) : RUN_LEAST
    at = scanned.look(from, Math.min(text.length, from + run))
    // Searching costs about as much as looking at some characters.
    if (pace.spend(run + RUN_LEAST)) yield
  }
}
