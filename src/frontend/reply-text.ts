/**
 * The text of one running choice: detokeniser, then stop strings. Without stop strings a token is one call.
 */
import type { StopConditions } from '../request/index.ts'
import { Detokenizer, StopStrings } from '../text/index.ts'
import type { Tokenizer } from '../text/index.ts'

export class ReplyText {
  readonly #detokenizer: Detokenizer
  readonly #stops: StopStrings | null
  #stopHit: string | null = null

  /** `markers`: control tokens that a parser of the output must see as text. */
  constructor(
    tokenizer: Tokenizer,
    stop: StopConditions,
    options: { readonly skipSpecialTokens: boolean; readonly markers?: readonly string[] },
  ) {
    this.#detokenizer = new Detokenizer(tokenizer, {
      skipSpecialTokens: options.skipSpecialTokens,
      keepTokens: options.markers ?? [],
    })
    const texts = stop.ignoreEos === true ? [] : (stop.stop ?? [])
    this.#stops =
      texts.length === 0
        ? null
        : new StopStrings(texts, {
            includeInOutput: stop.includeStopInOutput ?? false,
            minTokens: stop.minTokens ?? 0,
          })
  }

  get stopHit(): string | null {
    return this.#stopHit
  }

  /** New text that is decided; may be empty. Not to be called after a stop string was found. */
  push(tokenId: number): string {
    const text = this.#detokenizer.push(tokenId)
    if (this.#stops === null) return text
    const { emit, stopped } = this.#stops.push(text)
    if (stopped !== null) this.#stopHit = stopped
    return emit
  }

  /** The end: what was withheld is text after all, unless the last bytes complete a stop string. */
  flush(): string {
    const rest = this.#detokenizer.flush()
    if (this.#stops === null) return rest
    const { emit, stopped } = this.#stops.push(rest, 0)
    if (stopped !== null) {
      this.#stopHit = stopped
      return emit
    }
    return emit + this.#stops.flush()
  }
}
