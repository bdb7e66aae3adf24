/**
 * Bootstrap rooms, where prefill and decode of one request meet if both run at once: the prefill worker's last item
 * waits until decode has come for the KV, and decode starts when the prompt is computed. Either may come first.
 *
 * Owns who waits, and how long. Sockets are in room `host` (`SimBootstrap` over TCP).
 */
import { BatonError, withDeadline } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { finishChunk, usageOf } from '../../request/index.ts'
import type { BootstrapInfo, Chunk, GenerateRequest } from '../../request/index.ts'
import type { GenerateContext } from '../../engine/index.ts'

export interface SimBootstrap {
  /** For a prefill worker, called once; the address goes into its card. 0: any free port. */
  listen(port: number): Promise<{ readonly host: string; readonly port: number }>
  /** The prompt of this bootstrap room has been computed. Resolves when decode has been told. */
  complete(room: string, gone: AbortSignal): Promise<void>
  /** Resolves when the prompt of this bootstrap room has been computed. */
  join(at: BootstrapInfo, gone: AbortSignal): Promise<void>
  /** Idempotent; everyone who waits gets an error. */
  close(): Promise<void>
}

interface MeetingOptions {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly request: GenerateRequest
  readonly context: GenerateContext
  /** Waits for the other side. */
  readonly meet: (gone: AbortSignal) => Promise<void>
}

/** The stream of a prefill worker; its last item comes after the meeting. */
export async function* prefillInRoom(
  stream: AsyncIterable<Chunk>,
  options: MeetingOptions,
): AsyncGenerator<Chunk, void, undefined> {
  for await (const chunk of stream) {
    const hasMet = chunk.finish !== 'length' || (await meeting(options))
    yield hasMet ? chunk : cancelled(options)
  }
}

/** The stream of a decode worker, which begins after the meeting. */
export async function* decodeFromRoom(
  open: () => AsyncIterable<Chunk>,
  options: MeetingOptions,
): AsyncGenerator<Chunk, void, undefined> {
  if (await meeting(options)) yield* open()
  else yield cancelled(options)
}

/** False: the request was stopped before the other side came. */
async function meeting({ clock, timeoutMs, context, meet }: MeetingOptions): Promise<boolean> {
  if (context.isStopped) return false
  const gone = new AbortController()
  try {
    const { kind } = await withDeadline(clock, timeoutMs, meet(gone.signal), context.signal)
    if (kind === 'timed_out') {
      const text = `the other side of the hand-over did not come within ${timeoutMs} ms`
      throw new BatonError('kv.transfer_failed', text)
    }
    return kind === 'done'
  } finally {
    gone.abort()
  }
}

function cancelled({ request }: MeetingOptions): Chunk {
  return finishChunk('cancelled', { usage: usageOf(request.tokenIds.length, 0) })
}
