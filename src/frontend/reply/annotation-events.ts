/**
 * Annotations that a client requested: events before the chunks, in the requested order.
 */
import { annotationEvent, asciiJson, quoteJson } from '../../api/index.ts'
import type { GenerationOptions } from '../../api/index.ts'
import type { PreparedPrompt } from '../prompt/prompt.ts'

export function annotationEvents(
  requestId: string,
  { nvext }: GenerationOptions,
  prompts: readonly PreparedPrompt[],
): string[] {
  const events: string[] = []
  for (const name of nvext.annotations ?? []) {
    if (name === 'request_id') events.push(annotationEvent(name, quoteJson(requestId)))
    if (name === 'formatted_prompt') {
      for (const { text } of prompts) {
        if (text !== undefined) events.push(annotationEvent(name, quoteJson(text)))
      }
    }
    if (name === 'token_ids' && nvext.token_data === undefined) {
      for (const { tokenIds } of prompts) {
        events.push(annotationEvent(name, asciiJson(Array.from(tokenIds))))
      }
    }
  }
  return events
}
