/**
 * Isolates the tenants of one llama-server. Its prompt cache consists of its slots and knows no salts: a request may
 * reuse whatever prompt a slot contains. From the first request with a salt on, Baton therefore assigns the slots,
 * and a request reuses only what the same tenant has left. (Naming a slot also bypasses the server's prompt cache in
 * memory.)
 */
import type { GenerateRequest } from '../../request/index.ts'
import type { WriteContext, WrittenRequest } from './dialect.ts'
import { completionBody, writtenCompletion } from './llama-completion.ts'
import { SlotTable } from './slot-table.ts'

export class TenantSlots {
  readonly #slots: number
  #table: SlotTable | null = null

  constructor(slots: number) {
    this.#slots = slots
  }

  write(request: GenerateRequest, context: WriteContext): WrittenRequest | Promise<WrittenRequest> {
    const salt = request.routing.cacheSalt ?? ''
    // Until then the slots contain only prompts without a salt.
    if (salt !== '') this.#table ??= new SlotTable(this.#slots)
    if (this.#table !== null) return writeTo(this.#table, salt, request, context)
    return writtenCompletion(completionBody(request, context.facts.contextLength), context.lost)
  }
}

async function writeTo(
  table: SlotTable,
  salt: string,
  request: GenerateRequest,
  { facts, lost, signal }: WriteContext,
): Promise<WrittenRequest> {
  const { tokenIds } = request
  const slot = await table.acquire(tokenIds, salt, signal)
  const body = {
    ...completionBody(request, facts.contextLength),
    id_slot: slot.id,
    cache_prompt: slot.salt === salt,
  }
  let isHeld = true
  return {
    ...writtenCompletion(body, lost),
    release: () => {
      if (isHeld) table.release(slot, tokenIds, salt)
      isHeld = false
    },
  }
}
