/**
 * The prompt of a message that the model continues ends where that message ends in the rendering: a marker at the end
 * of the message shows where that is.
 */
import { BatonError } from '../../base/index.ts'
import type { ChatMessage } from './message-form.ts'
import { scan } from './paced-scan.ts'
import type { Pace } from './paced-scan.ts'

const [BEGIN, MIDDLE, END] = ['\ue5a0', '\ue5a1', '\ue5a2']

/** A marker that does not occur in the texts: its middle is longer than any in them. */
export function* unusedMarker(texts: readonly string[], pace: Pace): Generator<undefined, string> {
  const code = MIDDLE.charCodeAt(0)
  let longest = 0
  for (const text of texts) {
    let length = 0
    const skip = (from: number, to: number): void => void (to > from && (length = 0))
    const look = (from: number, to: number): number => {
      for (let at = from; at < to; at++) {
        length = text.charCodeAt(at) === code ? length + 1 : 0
        if (length > longest) longest = length
      }
      return to
    }
    yield* scan(text, /\ue5a1/g, { skip, look }, pace)
  }
  return BEGIN + MIDDLE.repeat(longest + 1) + END
}

export function withMarker(messages: readonly ChatMessage[], marker: string): ChatMessage[] {
  return messages.map((message, index) =>
    index === messages.length - 1
      ? { ...message, content: textOfContent(message) + marker }
      : message,
  )
}

/** The rendering up to the marker. */
export function beforeMarker(rendered: string, marker: string): string {
  const end = rendered.lastIndexOf(marker)
  if (end >= 0) return rendered.slice(0, end)
  throw new BatonError(
    'request.invalid_argument',
    "the model's chat template does not show the last message as it is: it cannot be continued",
    { data: { param: 'messages' } },
  )
}

function textOfContent({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part) => part.text ?? '').join('')
}
