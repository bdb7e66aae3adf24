/** Runs an output parser over pieces of text and joins its results. */
import type { OutputEvent, OutputParser } from '../../src/text/index.ts'

export interface ParsedOutput {
  text: string
  reasoning: string
  /** Name and arguments as text, and whether the end of the call was reached. */
  calls: (readonly [name: string, argumentsJson: string])[]
}

export function parsedOutput(
  parser: OutputParser | null,
  pieces: readonly string[],
  isCut = false,
): ParsedOutput {
  if (parser === null) throw new Error('no such parser')
  return joined([...pieces.flatMap((piece) => parser.push(piece)), ...parser.flush(isCut)])
}

function joined(events: readonly OutputEvent[]): ParsedOutput {
  const output: ParsedOutput = { text: '', reasoning: '', calls: [] }
  const open: { name: string; json: string }[] = []
  for (const event of events) {
    if (event.kind === 'text') output.text += event.text
    else if (event.kind === 'reasoning') output.reasoning += event.text
    else if (event.kind === 'tool-call-start') {
      if (event.index !== open.length) throw new Error(`call ${event.index} out of order`)
      open.push({ name: event.name, json: '' })
    } else {
      const call = open[event.index]
      if (call === undefined || output.calls[event.index] !== undefined)
        throw new Error(`${event.kind} of a call that is not open`)
      if (event.kind === 'tool-call-arguments') call.json += event.text
      else output.calls[event.index] = [call.name, call.json]
    }
  }
  if (output.calls.length !== open.length) throw new Error('a call without an end')
  return output
}
