/**
 * The short list of platform names that a pure room (a folder of src without input and output) may use. Node has all of them, so has a browser.
 * What is not here (timers, sockets, files, console, performance) does not exist for a pure room.
 */
interface AbortSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
  throwIfAborted(): void
}
declare class AbortController {
  readonly signal: AbortSignal
  abort(reason?: unknown): void
}
declare class TextEncoder {
  encode(text?: string): Uint8Array<ArrayBuffer>
  encodeInto(text: string, target: Uint8Array): { read: number; written: number }
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean })
  decode(bytes?: Uint8Array | ArrayBuffer, options?: { stream?: boolean }): string
}
declare class MessageChannel {
  readonly port1: {
    postMessage(message: unknown, transfer: ArrayBuffer[]): void
    close(): void
  }
}
