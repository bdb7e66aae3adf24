/**
 * KV transfer between llama-servers: prefill computes a prompt in a slot and saves it to a file; decode restores the
 * file into one of its own slots and computes only what is missing. A file of another prompt does no harm: only the
 * common prefix is used.
 *
 * Owns: the slot, the life of the file, the deadlines (saving a busy slot would wait for ever), and whether KV was
 * transferred.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { GenerateRequest, PrefillResult } from '../../request/index.ts'
import { fetchWhole, jsonOf } from '../client/fetch-json.ts'
import type { Lane } from '../client/lane.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { Piece, PieceReader, WriteContext, WrittenRequest } from './dialect.ts'
import { completionBody, writtenCompletion } from './llama-completion.ts'
import { numberIn } from './plain-values.ts'
import { SlotFiles } from './slot-files.ts'
import { SlotPool } from './slot-pool.ts'
import type { SlotLease } from './slot-pool.ts'
import { inSlot } from './slot-reader.ts'

const ENVELOPE = 'llama_slot_file'
const SLOT_DEADLINE_MS = 5000

export class LlamaSlots {
  readonly #files: SlotFiles
  #pool = new SlotPool(0)

  constructor(folder: string) {
    this.#files = new SlotFiles(folder)
  }

  async open(slots: number): Promise<void> {
    this.#pool = new SlotPool(slots)
    await this.#files.open()
  }

  close(): Promise<void> {
    return this.#files.close()
  }

  async writePrefill(request: GenerateRequest, context: WriteContext): Promise<WrittenRequest> {
    const completion = completionBody(request, context.facts.contextLength)
    const lease = await this.lease(context.client, request, context.signal)
    const body = {
      ...completion,
      // One token is computed all the same, and not reported.
      n_predict: 0,
      id_slot: lease.id,
      cache_prompt: lease.holdsOwn,
    }
    return {
      ...inSlot(writtenCompletion(body, context.lost), lease),
      complete: async () => {
        const prefillResult = await this.save(context.client, lease)
        return prefillResult === null ? {} : { prefillResult }
      },
    }
  }

  async writeDecode(request: GenerateRequest, context: WriteContext): Promise<WrittenRequest> {
    const file = fileOf(request.prefillResult)
    try {
      const completion = completionBody(request, context.facts.contextLength)
      const lease = await this.lease(context.client, request, context.signal)
      const restored = file === null ? 0 : await this.restore(context.client, lease, file)
      const body = {
        ...completion,
        id_slot: lease.id,
        cache_prompt: restored > 0 || lease.holdsOwn,
      }
      const written = inSlot(writtenCompletion(body, context.lost), lease)
      if (request.prefillResult === undefined) return written
      const expected = Math.min(restored, request.tokenIds.length) - 1
      const reader = new MovedReader(written.reader, expected > 0 ? expected : Infinity)
      return { ...written, reader }
    } finally {
      await this.drop(file)
    }
  }

  /** Deletes a file that was used or will not be. */
  async drop(file: string | null): Promise<void> {
    if (file !== null) await this.#files.remove(file)
  }

  /** A slot, when one is free; the caller releases it. */
  lease(client: UpstreamClient, request: GenerateRequest, signal: AbortSignal): Promise<SlotLease> {
    const salt = request.routing.cacheSalt ?? ''
    return this.#pool.lease(client, { tokens: request.tokenIds, salt }, signal)
  }

  /** Null: it could not be saved, and decode computes the prompt itself. */
  async save(client: UpstreamClient, lease: SlotLease): Promise<PrefillResult | null> {
    const filename = this.#files.create()
    const saved = await slotAction(client, { id: lease.id, action: 'save' }, filename)
    lease.answeredFrom(numberIn(saved, 'id_slot'))
    // It may be another server than the one that computed: its slot contains another prompt, or another slot was saved.
    const isOwn = numberIn(saved, 'id_slot') === lease.id
    if (isOwn && (numberIn(saved, 'n_saved') ?? 0) > 0) {
      return { engineParams: { [ENVELOPE]: filename } }
    }
    await this.#files.remove(filename)
    return null
  }

  /**
   * The number of tokens in the slot afterwards; 0: the file could not be used. Releases the slot if it rejects.
   */
  async restore(client: UpstreamClient, lease: SlotLease, filename: string): Promise<number> {
    const { id, lane } = lease
    try {
      const answer = await slotAction(client, { id, action: 'restore', lane }, filename)
      lease.answeredFrom(numberIn(answer, 'id_slot'))
      return numberIn(answer, 'id_slot') === id ? (numberIn(answer, 'n_restored') ?? 0) : 0
    } catch (thrown) {
      lease.release()
      throw thrown
    }
  }
}

interface SlotAction {
  readonly id: number
  readonly action: 'save' | 'restore'
  /** Absent: a connection of its own. */
  readonly lane?: Lane
}

async function slotAction(
  client: UpstreamClient,
  { id, action, lane }: SlotAction,
  filename: string,
): Promise<unknown> {
  try {
    const { status, text } = await fetchWhole(
      client,
      {
        method: 'POST',
        path: `/slots/${id}?action=${action}`,
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ filename }),
        ...(lane === undefined ? { reuse: false } : { lane }),
      },
      { deadlineMs: SLOT_DEADLINE_MS },
    )
    return status === 200 ? jsonOf(text) : null
  } catch (thrown) {
    if (BatonError.from(thrown).code === 'backend.response_timeout') return null
    throw thrown
  }
}

/** Null: prefill has left no file. */
export function fileOf(result: PrefillResult | undefined): string | null {
  const { engineParams } = result ?? {}
  const name = isRecord(engineParams) ? engineParams[ENVELOPE] : undefined
  return SlotFiles.isName(name) ? name : null
}

/** Reports at the end whether the restored KV was used. */
class MovedReader implements PieceReader {
  readonly #reader: PieceReader
  readonly #expected: number

  constructor(reader: PieceReader, expected: number) {
    this.#reader = reader
    this.#expected = expected
  }

  read(json: unknown): Piece | null {
    const piece = this.#reader.read(json)
    if (piece?.finish === undefined) return piece
    return { ...piece, kvMoved: (piece.cachedTokens ?? 0) >= this.#expected }
  }
}
