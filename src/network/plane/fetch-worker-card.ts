/**
 * The card of a worker of which only the address is known.
 */
import { decodePlain } from '../../wire/index.ts'
import { WorkerConversation } from './ask-worker.ts'
import type { AskWorkerOptions } from './ask-worker.ts'

/** What the worker says, unchecked; null: it takes no requests now. Rejects when it cannot be reached. */
export async function fetchWorkerCard(options: AskWorkerOptions): Promise<unknown> {
  const conversation = await WorkerConversation.open(options)
  try {
    const bytes = await conversation.card()
    return bytes.length === 0 ? null : decodePlain(bytes, 0, bytes.length, 'a card')
  } finally {
    conversation.close()
  }
}
