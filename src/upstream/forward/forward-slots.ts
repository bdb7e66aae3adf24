/**
 * Forwarded requests to llama-servers with a role: prefill computes the client's request for one token in a slot and
 * saves it to a file; decode restores the file and gets the client's request with the number of its slot.
 *
 * Owns: which of the two a leg does, and that in every case the slot is freed and the file deleted.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { finishChunk, withFields } from '../../request/index.ts'
import type {
  Chunk,
  ForwardedRequest,
  GenerateRequest,
  PhaseEvent,
  ReplySink,
  RequestHandle,
} from '../../request/index.ts'
import { askJson } from '../client/fetch-json.ts'
import type { UpstreamRequest } from '../client/upstream-call.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { fileOf, LlamaSlots } from '../dialects/llama-slots.ts'
import { slotCountIn } from '../dialects/slot-pool.ts'
import type { SlotLease } from '../dialects/slot-pool.ts'
import type { HandOverCounts } from '../watch/hand-over-counts.ts'
import { ForwardCall } from './forward-call.ts'
import { ForwardPrefill } from './forward-prefill.ts'

const ASK_MS = 10_000
/** Routes on which the server accepts a slot number; its other routes convert the request and drop it. */
const WITH_SLOT: ReadonlySet<string> = new Set(['/v1/chat/completions', '/v1/completions'])

/** One leg as it would be sent without a slot. */
interface SlotLegParts {
  readonly forward: ForwardedRequest
  readonly request: GenerateRequest
  readonly http: UpstreamRequest
  readonly sink: ReplySink
  readonly clock: Clock
  readonly handOvers: HandOverCounts
}

export class ForwardSlots {
  readonly client: UpstreamClient
  readonly slots: LlamaSlots

  constructor(client: UpstreamClient, folder: string) {
    this.client = client
    this.slots = new LlamaSlots(folder)
  }

  /** Rejects with `config.invalid` when the folder does not exist. */
  async open(): Promise<void> {
    const props = await askJson(this.client, '/props', { deadlineMs: ASK_MS })
    await this.slots.open(slotCountIn(props))
  }

  close(): Promise<void> {
    return this.slots.close()
  }

  /** Null: no KV can be transferred for such a request. */
  prefill(parts: SlotLegParts): RequestHandle | null {
    const body = parts.forward.prefillBody?.(true)
    if (body === undefined || !WITH_SLOT.has(parts.forward.path)) return null
    const leg = new SlotLeg(this, parts)
    void leg.prefill(body)
    return leg
  }

  /** Null: no KV was transferred. */
  decode(parts: SlotLegParts): RequestHandle | null {
    const file = fileOf(parts.request.prefillResult)
    if (file === null) return null
    const leg = new SlotLeg(this, parts)
    void leg.decode(file)
    return leg
  }
}

class SlotLeg implements RequestHandle, ReplySink {
  readonly #of: ForwardSlots
  readonly #parts: SlotLegParts
  readonly #leaving = new AbortController()
  #lease: SlotLease | null = null
  #call: RequestHandle | null = null
  #isPrefill = false
  #hasEnded = false

  constructor(of: ForwardSlots, parts: SlotLegParts) {
    this.#of = of
    this.#parts = parts
  }

  async prefill(body: Uint8Array): Promise<void> {
    this.#isPrefill = true
    const { client } = this.#of
    await this.#run(async () => {
      const lease = await this.#takeSlot()
      const http = this.#httpOf(body, lease, lease.holdsOwn)
      return (): RequestHandle => {
        const { clock, forward, request } = this.#parts
        const { requestId } = request
        return new ForwardPrefill({ clock, requestId }, forward, this).start(client, http)
      }
    })
  }

  async decode(file: string): Promise<void> {
    const { client, slots } = this.#of
    const { forward } = this.#parts
    await this.#run(async () => {
      try {
        const lease = await this.#takeSlot()
        const restored = await slots.restore(client, lease, file)
        const http = this.#httpOf(forward.body, lease, restored > 0 || lease.holdsOwn)
        return (): RequestHandle => {
          const call = new ForwardCall(forward, this)
          call.hasHandOver = restored > 0
          if (restored > 0) call.handOvers = this.#parts.handOvers
          return call.start(client, http)
        }
      } finally {
        await slots.drop(file)
      }
    })
  }

  cancel(kind: 'stop' | 'kill'): void {
    if (this.#hasEnded) return
    if (this.#call === null || kind === 'kill') {
      this.#call?.cancel(kind)
      this.#leaving.abort()
      this.#end()
      if (kind === 'stop') this.#parts.sink.onChunk(finishChunk('cancelled'))
    } else this.#call.cancel(kind)
  }

  onToken(tokenId: number): void {
    this.#lease?.computed()
    this.#parts.sink.onToken(tokenId)
  }

  onPhase(event: PhaseEvent): void {
    this.#parts.sink.onPhase?.(event)
  }

  onChunk(chunk: Chunk): void {
    if (this.#hasEnded) return
    if (this.#isPrefill && chunk.finish === 'length') {
      this.#lease?.computed()
      void this.#save(chunk)
      return
    }
    if (chunk.finish !== undefined) this.#end()
    this.#parts.sink.onChunk(chunk)
  }

  onError(error: BatonError): void {
    if (this.#hasEnded) return
    this.#end()
    this.#parts.sink.onError(error)
  }

  /** The prompt is computed: the decode leg is told the file. */
  async #save(chunk: Chunk): Promise<void> {
    const { client, slots } = this.#of
    try {
      const result = this.#lease === null ? null : await slots.save(client, this.#lease)
      if (this.#hasEnded) {
        await slots.drop(fileOf(result ?? undefined))
        return
      }
      this.#end()
      this.#parts.sink.onChunk(result === null ? chunk : { ...chunk, prefillResult: result })
    } catch (thrown) {
      this.onError(BatonError.from(thrown))
    }
  }

  async #run(prepare: () => Promise<() => RequestHandle>): Promise<void> {
    try {
      const start = await prepare()
      if (this.#hasEnded) return
      this.#call = start()
    } catch (thrown) {
      this.onError(BatonError.from(thrown))
    }
  }

  async #takeSlot(): Promise<SlotLease> {
    const { client, slots } = this.#of
    const lease = await slots.lease(client, this.#parts.request, this.#leaving.signal)
    if (this.#hasEnded) {
      lease.release()
      throw new BatonError('request.cancelled', 'the request was cancelled while it waited')
    }
    this.#lease = lease
    return lease
  }

  /** The server closes the connection after a stream, whatever its headers say. */
  #httpOf(body: Uint8Array, { id, lane }: SlotLease, isOwn: boolean): UpstreamRequest {
    const fields = `"id_slot":${id},"cache_prompt":${isOwn}`
    return { ...this.#parts.http, body: withFields(body, fields), reuse: false, lane }
  }

  #end(): void {
    this.#hasEnded = true
    this.#lease?.release()
  }
}
