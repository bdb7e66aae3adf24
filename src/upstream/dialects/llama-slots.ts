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
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { Piece, PieceReader, WriteContext, WrittenRequest } from './dialect.ts'
import { completionBody, writtenCompletion } from './llama-completion.ts'
import { numberIn } from './plain-values.ts'
import { SlotFiles } from './slot-files.ts'
import { SlotTable } from './slot-table.ts'
import type { Slot } from './slot-table.ts'

const ENVELOPE = 'llama_slot_file'
const SLOT_DEADLINE_MS = 5000

export class LlamaSlots {
  readonly #files: SlotFiles
  #table = new SlotTable(0)

  constructor(folder: string) {
    this.#files = new SlotFiles(folder)
  }

  async open(slots: number): Promise<void> {
    this.#table = new SlotTable(slots)
    await this.#files.open()
  }

  close(): Promise<void> {
    return this.#files.close()
  }

  async writePrefill(request: GenerateRequest, context: WriteContext): Promise<WrittenRequest> {
    const { slot, release } = await this.slotFor(request, context.signal)
    const body = {
      ...completionBody(request, context.facts.contextLength),
      // One token is computed all the same, and not reported.
      n_predict: 0,
      id_slot: slot.id,
      cache_prompt: holdsOwn(slot, request),
    }
    return {
      ...writtenCompletion(body, context.lost),
      release,
      complete: async () => {
        const prefillResult = await this.save(context.client, slot)
        return prefillResult === null ? {} : { prefillResult }
      },
    }
  }

  async writeDecode(request: GenerateRequest, context: WriteContext): Promise<WrittenRequest> {
    const file = fileOf(request.prefillResult)
    try {
      const { slot, release } = await this.slotFor(request, context.signal)
      const restored = file === null ? 0 : await this.restore(context.client, slot, file)
      const body = {
        ...completionBody(request, context.facts.contextLength),
        id_slot: slot.id,
        cache_prompt: restored > 0 || holdsOwn(slot, request),
      }
      const written = writtenCompletion(body, context.lost)
      if (request.prefillResult === undefined) return { ...written, release }
      const expected = Math.min(restored, request.tokenIds.length) - 1
      const reader = new MovedReader(written.reader, expected > 0 ? expected : Infinity)
      return { ...written, release, reader }
    } finally {
      await this.drop(file)
    }
  }

  /** Deletes a file that was used or will not be. */
  async drop(file: string | null): Promise<void> {
    if (file !== null) await this.#files.remove(file)
  }

  /** A slot, when one is free; `release` frees it, once. */
  async slotFor(
    request: GenerateRequest,
    signal: AbortSignal,
  ): Promise<{ readonly slot: Slot; readonly release: () => void }> {
    const { tokenIds } = request
    const slot = await this.#table.acquire(tokenIds, saltOf(request), signal)
    let isHeld = true
    return {
      slot,
      release: () => {
        if (isHeld) this.#table.release(slot, tokenIds, saltOf(request))
        isHeld = false
      },
    }
  }

  /** Null: it could not be saved, and decode computes the prompt itself. */
  async save(client: UpstreamClient, slot: Slot): Promise<PrefillResult | null> {
    const filename = this.#files.create()
    const saved = await slotAction(client, slot, 'save', filename)
    if (saved !== null && (numberIn(saved, 'n_saved') ?? 0) > 0) {
      return { engineParams: { [ENVELOPE]: filename } }
    }
    await this.#files.remove(filename)
    return null
  }

  /** The number of tokens in the slot afterwards; 0: the file could not be used. */
  async restore(client: UpstreamClient, slot: Slot, filename: string): Promise<number> {
    const answer = await slotAction(client, slot, 'restore', filename)
    // For a slot number that does not exist the server answers 200 for another slot.
    if (answer === null || numberIn(answer, 'id_slot') !== slot.id) return 0
    return numberIn(answer, 'n_restored') ?? 0
  }
}

async function slotAction(
  client: UpstreamClient,
  slot: Slot,
  action: 'save' | 'restore',
  filename: string,
): Promise<unknown> {
  try {
    const { status, text } = await fetchWhole(
      client,
      {
        method: 'POST',
        path: `/slots/${slot.id}?action=${action}`,
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ filename }),
        reuse: false,
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

/** True when the request may reuse the content of the slot. */
export function holdsOwn(slot: Slot, request: GenerateRequest): boolean {
  return slot.salt === saltOf(request)
}

function saltOf({ routing }: GenerateRequest): string {
  return routing.cacheSalt ?? ''
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
