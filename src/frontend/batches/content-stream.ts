/** Streams a file as the body of a reply; it is read only as fast as the client reads. */
import type { CancelSignal } from '../../base/index.ts'
import type { HttpStream, StreamWriter } from '../http/http-exchange.ts'

export function contentStream(pieces: AsyncIterable<Uint8Array>, signal: CancelSignal): HttpStream {
  return {
    open: (writer) => {
      write(pieces, writer, signal).then(
        () => writer.end(),
        () => (writer.flow === undefined ? writer.end() : writer.flow.abort()),
      )
    },
  }
}

async function write(
  pieces: AsyncIterable<Uint8Array>,
  writer: StreamWriter,
  signal: CancelSignal,
): Promise<void> {
  for await (const piece of pieces) {
    if (signal.aborted) return
    writer.write(latin1Of(piece), true)
    if (writer.flow?.isFull === true) await untilRead(writer, signal)
  }
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
