/**
 * Separates user text from template text, so that `<|im_end|>` in a message stays text (no prompt injection by
 * control tokens).
 *
 * Before rendering, the first character of everything in user text that could begin a control token is replaced by a
 * mark, a private-use character that does not occur in the input. Templates may trim, slice, split or escape the text:
 * a single replaced character survives all of that, and text without control tokens is rendered unchanged. After
 * rendering, the characters are restored and their positions are reported as literal ranges.
 */
import { BatonError } from '../../base/index.ts'
import { endOf } from './control-text-pattern.ts'
import type { ControlTextPattern } from './control-text-pattern.ts'
import { MARK_CANDIDATES, MARK_FIRST, MARK_LAST, markAt, markLengthAt } from './mark-text.ts'
import { scan, withoutPauses } from './paced-scan.ts'
import type { Pace } from './paced-scan.ts'
import { TextWriter } from './text-writer.ts'

/** The replaced characters of one rendering. */
export class ControlTextGuard {
  readonly #pattern: ControlTextPattern
  readonly #pace: Pace
  readonly #writer = new TextWriter()
  /** 1 for a mark that occurs in the input; by distance from the first. */
  readonly #isTaken = new Uint8Array(MARK_LAST - MARK_FIRST + 1)
  readonly #markByCharacter = new Map<string, number>()
  readonly #characterByMark = new Map<number, string>()
  #nextMark = MARK_FIRST

  constructor(pattern: ControlTextPattern, pace: Pace) {
    this.#pattern = pattern
    this.#pace = pace
  }

  /** Called before `protect` with everything that will be rendered: marks must not occur in it. */
  *avoid(text: string): Generator<undefined, void> {
    const look = (from: number, to: number): number => {
      for (let at = from; at < to; at++) {
        const mark = markAt(text, at)
        if (mark > 0) this.#isTaken[mark - MARK_FIRST] = 1
      }
      return to
    }
    yield* scan(text, MARK_CANDIDATES, { look }, this.#pace)
  }

  *protect(text: string): Generator<undefined, string> {
    if (!this.#pattern.mayOccurIn(text)) return text
    const writer = this.#writer
    const end = endOf(text)
    const skip = (from: number, to: number): void => writer.append(text.slice(from, to))
    const look = (from: number, to: number): number => {
      let at = from
      while (at < to) {
        const length = this.#pattern.lengthAt(text, at, end)
        writer.unit(length === 0 ? text.charCodeAt(at) : this.#markOf(text, at, length))
        at += length || 1
      }
      return at
    }
    yield* scan(text, this.#pattern.candidates, { skip, look }, this.#pace)
    return writer.take()
  }

  *restore(rendered: string): Generator<undefined, string> {
    if (this.#characterByMark.size === 0) return rendered
    const writer = this.#writer
    const skip = (from: number, to: number): void => writer.append(rendered.slice(from, to))
    const look = (from: number, to: number): number => {
      let at = from
      while (at < to) {
        const character = this.#characterAt(rendered, at)
        if (character === undefined) writer.unit(rendered.charCodeAt(at++))
        else {
          for (let i = 0; i < character.length; i++) writer.unit(character.charCodeAt(i))
          at += markLengthAt(rendered, at)
        }
      }
      return at
    }
    yield* scan(rendered, MARK_CANDIDATES, { skip, look }, this.#pace)
    return writer.take()
  }

  /**
   * Ascending pairs [start, end) of characters of the restored text that must not become part of a control token. Apart
   * from `restore`, because a text that is too long must be refused before they are collected.
   */
  literalRanges(rendered: string): readonly number[] {
    if (this.#characterByMark.size === 0) return []
    const ranges: number[] = []
    let shift = 0
    const look = (from: number, to: number): number => {
      let at = from
      while (at < to) {
        const character = this.#characterAt(rendered, at)
        if (character === undefined) at += 1
        else {
          ranges.push(at + shift, at + shift + character.length)
          const length = markLengthAt(rendered, at)
          shift += character.length - length
          at += length
        }
      }
      return at
    }
    withoutPauses(scan(rendered, MARK_CANDIDATES, { look }, this.#pace))
    return ranges
  }

  #characterAt(rendered: string, at: number): string | undefined {
    const mark = markAt(rendered, at)
    return mark === 0 ? undefined : this.#characterByMark.get(mark)
  }

  #markOf(text: string, at: number, length: number): number {
    const character = text.slice(at, at + length)
    const known = this.#markByCharacter.get(character)
    if (known !== undefined) return known
    while (this.#isTaken[this.#nextMark - MARK_FIRST] === 1) this.#nextMark++
    if (this.#nextMark > MARK_LAST) {
      throw new BatonError(
        'request.invalid_argument',
        'messages contain every private-use character and a control token; remove one of them',
      )
    }
    const mark = this.#nextMark++
    this.#markByCharacter.set(character, mark)
    this.#characterByMark.set(mark, character)
    return mark
  }
}
