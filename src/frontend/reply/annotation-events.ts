/**
 * Annotations that a client asked for: events before the chunks, in the order in which they were asked for.
 */
import { annotationEvent, asciiJson, quoteJson } from '../../api/index.ts'
import type { ReplyContext } from './reply-context.ts'

export function annotationEvents(requestId: string, context: ReplyContext): string[] {
  const { nvext } = context.call
  const events: string[] = []
  for (const name of nvext.annotations ?? []) {
    if (name === 'request_id') events.push(annotationEvent(name, quoteJson(requestId)))
    if (name === 'formatted_prompt') {
      for (const { text } of context.prompts) {
        if (text !== undefined) events.push(annotationEvent(name, quoteJson(text)))
      }
    }
    if (name === 'token_ids' && nvext.token_data === undefined) {
      for (const { tokenIds } of context.prompts) {
        events.push(annotationEvent(name, asciiJson(Array.from(tokenIds))))
      }
    }
  }
  return events
}
