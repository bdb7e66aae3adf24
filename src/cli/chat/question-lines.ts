/**
 * Groups the lines of a terminal into questions: a paste of many lines is one question.
 *
 * Terminals mark a paste (`bracketed paste`), and readline turns the marks into the keys `paste-start` and
 * `paste-end`. Lines between them are kept until Enter is pressed after the paste. Where a terminal does not
 * mark pastes, lines that arrive faster than a person types belong together. Each line of a script is a
 * question of its own.
 */
import type { Interface } from 'node:readline'
import type { Clock, Timer } from '../../base/index.ts'
import { osClock } from '../../os/index.ts'

const PASTE_ON = '\u001B[?2004h'
const PASTE_OFF = '\u001B[?2004l'
/** Milliseconds between two lines of an unmarked paste, at most. */
const TOGETHER_MS = 15

interface Key {
  readonly name?: string
}

/**
 * Yields one question after the other until the input ends. Ctrl-C stops what `stopAnswer` stops (it returns false when
 * there is nothing to stop); otherwise it clears the text that was typed or pasted, and without text it ends the input.
 */
export async function* questions(
  terminal: Interface,
  isTerminal: boolean,
  stopAnswer: () => boolean,
): AsyncGenerator<string> {
  if (!isTerminal) {
    yield* terminal
    return
  }
  const waiting: string[] = []
  let wake: (() => void) | null = null
  let isClosed = false
  const paste = new PasteCollector(osClock, (question) => {
    waiting.push(question)
    wake?.()
  })
  const onKey = (_: string, key: Key | undefined): void => paste.key(key?.name)
  process.stdin.on('keypress', onKey)
  process.stdout.write(PASTE_ON)
  terminal.on('line', (line) => paste.line(line))
  terminal.on('SIGINT', () => {
    if (stopAnswer()) return
    const hadLines = paste.discard()
    if (hadLines || terminal.line !== '') clearLine(terminal)
    else terminal.close()
  })
  terminal.once('close', () => {
    isClosed = true
    paste.end()
    wake?.()
  })
  try {
    for (;;) {
      const next = waiting.shift()
      if (next !== undefined) yield next
      else if (isClosed) return
      else {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  } finally {
    process.stdin.off('keypress', onKey)
    process.stdout.write(PASTE_OFF)
  }
}

/** Presses the keys of readline that delete a line: Ctrl-E moves to its end, Ctrl-U deletes all before the cursor. */
function clearLine(terminal: Interface): void {
  terminal.write(null, { ctrl: true, name: 'e' })
  terminal.write(null, { ctrl: true, name: 'u' })
}

export class PasteCollector {
  readonly #clock: Pick<Clock, 'after'>
  readonly #onQuestion: (question: string) => void
  #lines: string[] = []
  #isPasting = false
  #timer: Timer | null = null

  constructor(clock: Pick<Clock, 'after'>, onQuestion: (question: string) => void) {
    this.#clock = clock
    this.#onQuestion = onQuestion
  }

  key(name: string | undefined): void {
    if (name === 'paste-start') this.#isPasting = true
    else if (name === 'paste-end') this.#isPasting = false
  }

  line(line: string): void {
    this.#lines.push(line)
    this.#timer?.cancel()
    this.#timer = this.#isPasting ? null : this.#clock.after(TOGETHER_MS, () => this.#flush())
  }

  /** Drops the lines that are no question yet; returns false when there were none. */
  discard(): boolean {
    const hadLines = this.#lines.length > 0
    this.#timer?.cancel()
    this.#timer = null
    this.#lines = []
    this.#isPasting = false
    return hadLines
  }

  /** The input has ended. */
  end(): void {
    this.#timer?.cancel()
    this.#flush()
  }

  #flush(): void {
    this.#timer = null
    if (this.#lines.length === 0) return
    const question = this.#lines.join('\n')
    this.#lines = []
    this.#onQuestion(question)
  }
}
