/**
 * Answers that are kept until something changes. A real clock does not show the same time twice, so that an answer is as good
 * as new for a moment; what only time changes is checked again far later.
 */
const FRESH_MS = 1
const KEYS_MAX = 4096

export interface Moment {
  /** A counter that changes with every change of load or fleet. */
  readonly version: number
  readonly nowMs: number
}

interface Known<Answer> extends Moment {
  readonly answer: Answer
}

export class FreshAnswers<Answer> {
  readonly #known = new Map<string, Known<Answer>>()

  /** The kept answer, or a new one if none is kept that still holds. */
  of(key: string, now: Moment, find: () => Answer): Answer {
    const known = this.#known.get(key)
    if (known !== undefined && isFresh(known, now)) return known.answer
    if (known === undefined && this.#known.size >= KEYS_MAX) this.#known.clear()
    const answer = find()
    this.#known.set(key, { ...now, answer })
    return answer
  }
}

function isFresh(known: Moment, now: Moment): boolean {
  return known.version === now.version && now.nowMs - known.nowMs < FRESH_MS
}
