/**
 * Long texts that wait for a tokenizer's thread: the shorter first, but no text is passed by for ever.
 *
 * Each is ordered by when it came plus a time for its length, so that what comes later than that goes behind it. Tokenising
 * takes about 0.2 µs per character; with ten times that, a text of 400,000 characters lets shorter ones by for 0.8 s.
 */
const MS_PER_CHARACTER = 0.002

interface Entry<Task> {
  readonly task: Task
  readonly orderMs: number
}

export class TextQueue<Task extends { readonly text: string }> {
  /** Sorted: the next one at the end. */
  readonly #entries: Entry<Task>[] = []

  get size(): number {
    return this.#entries.length
  }

  add(task: Task, nowMs: number): void {
    const orderMs = nowMs + task.text.length * MS_PER_CHARACTER
    let at = this.#entries.length
    // Of equals the first goes first.
    while (at > 0 && (this.#entries[at - 1] as Entry<Task>).orderMs <= orderMs) at--
    this.#entries.splice(at, 0, { task, orderMs })
  }

  take(): Task | undefined {
    return this.#entries.pop()?.task
  }
}
