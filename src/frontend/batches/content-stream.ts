/** Streams a file as the body of a reply; it is read only as fast as the client reads. */
import type { CancelSignal } from '../../base/index.ts'
import type { HttpStream, StreamWriter } from '../http/http-exchange.ts'

/** `bytes`: as announced; if there are fewer, the connection is closed, because the client waits for the rest. */
export function contentStream(
  pieces: AsyncIterable<Uint8Array>,
  bytes: number,
  signal: CancelSignal,
): HttpStream {
  return {
    open: (writer) => {
      const abort = (): void => (writer.flow === undefined ? writer.end() : writer.flow.abort())
      write(pieces, writer, signal).then(
        (written) => (written === bytes ? writer.end() : abort()),
        abort,
      )
    },
  }
}

async function write(
  pieces: AsyncIterable<Uint8Array>,
  writer: StreamWriter,
  signal: CancelSignal,
): Promise<number> {
  let written = 0
  for await (const piece of pieces) {
    if (signal.aborted) return written
    written += piece.length
    writer.write(latin1Of(piece), true)
    if (writer.flow?.isFull === true) await untilRead(writer, signal)
  }
  return written
}

function untilRead({ flow }: StreamWriter, signal: CancelSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', resolve)
    flow?.whenRead(() => {
      signal.removeEventListener('abort', resolve)
      resolve()
    })
  })
}

const CHARACTERS = 8192

/** One character per byte. Spreading the array into an argument list would take eight times as long. */
function latin1Of(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += CHARACTERS) {
    const some = bytes.subarray(at, at + CHARACTERS) as ArrayLike<number> as number[]
    text += String.fromCharCode.apply(null, some)
  }
  return text
}
