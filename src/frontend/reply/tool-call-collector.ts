/**
 * Assembles the tool calls of one choice from the parser's events.
 */
import { CustomToolInput } from '../../api/index.ts'
import type { ToolCallReply } from '../../api/index.ts'
import type { OutputEvent } from '../../text/index.ts'

export class ToolCallCollector {
  readonly #calls: { id: string; name: string; arguments: string }[] = []

  take(event: OutputEvent, createId: () => string): void {
    if (event.kind === 'tool-call-start') {
      this.#calls[event.index] = { id: createId(), name: event.name, arguments: '' }
    } else if (event.kind === 'tool-call-arguments') {
      const call = this.#calls[event.index]
      if (call !== undefined) call.arguments += event.text
    }
  }

  /** Only the first call if `several` is false. */
  calls(several: boolean, customTools: ReadonlySet<string>): ToolCallReply[] {
    const shown = several ? this.#calls : this.#calls.slice(0, 1)
    return shown.map((call) => (customTools.has(call.name) ? withInput(call) : call))
  }
}

function withInput(call: ToolCallReply): ToolCallReply {
  const input = new CustomToolInput()
  input.push(call.arguments)
  input.end()
  return { ...call, input: input.text }
}
