/** Limits what the patterns of one request may cost together, because they are computed while other requests wait. */
import { patternTooLarge } from '../gbnf/grammar-refusal.ts'

/** Parts of expressions that are looked at; about 0.2 s. */
const STEPS_MAX = 100_000

export class RegexBudget {
  #left = STEPS_MAX

  /** Throws `request.unsupported_parameter` when nothing is left. */
  spend(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw patternTooLarge()
  }
}
