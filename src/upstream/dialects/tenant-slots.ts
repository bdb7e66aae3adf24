/**
 * Isolates the tenants of one llama-server. Its prompt cache consists of its slots and knows no salts: a request may
 * reuse whatever prompt a slot contains. From the first request with a salt on, Baton therefore assigns the slots,
 * and a request reuses only what the same tenant has left. (Naming a slot also bypasses the server's prompt cache in
 * memory.)
 */
import type { GenerateRequest } from '../../request/index.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { WriteContext, WrittenRequest } from './dialect.ts'
import { completionBody, writtenCompletion } from './llama-completion.ts'
import { SlotPool } from './slot-pool.ts'
import { inSlot } from './slot-reader.ts'

/**
 * The addresses to which this process has sent requests with a salt. An adapter that is started again finds there what
 * tenants left.
 */
const WITH_TENANTS = new Set<string>()

export class TenantSlots {
  readonly #slots: number
  readonly #address: string
  #pool: SlotPool | null = null

  constructor(slots: number, { url }: Pick<UpstreamClient, 'url'>) {
    this.#slots = slots
    this.#address = url.text
    if (WITH_TENANTS.has(url.text)) this.#pool = new SlotPool(slots)
  }

  write(request: GenerateRequest, context: WriteContext): WrittenRequest | Promise<WrittenRequest> {
    const salt = request.routing.cacheSalt ?? ''
    if (salt !== '') {
      WITH_TENANTS.add(this.#address)
      this.#pool ??= new SlotPool(this.#slots)
    }
    if (this.#pool !== null) return writeTo(this.#pool, salt, request, context)
    return writtenCompletion(completionBody(request, context.facts.contextLength), context.lost)
  }
}

async function writeTo(
  pool: SlotPool,
  salt: string,
  request: GenerateRequest,
  { client, facts, lost, signal }: WriteContext,
): Promise<WrittenRequest> {
  const body = completionBody(request, facts.contextLength)
  const lease = await pool.lease(client, { tokens: request.tokenIds, salt }, signal)
  const slot = { id_slot: lease.id, cache_prompt: lease.holdsOwn }
  return inSlot(writtenCompletion({ ...body, ...slot }, lost), lease)
}
