/**
 * The baseline: a bare socket that reads a number of bytes from the sender directly to their place, as the KV client
 * does.
 */
import { connect } from 'node:net'
import type { Socket } from 'node:net'

import { BLOCK, MB } from './sender.ts'
import type { SenderAddress } from './sender.ts'

type Allocate = (byteLength: number) => Uint8Array

export class BareReader {
  readonly #socket: Socket
  readonly #buffer = Buffer.allocUnsafeSlow(MB)
  #left = 0
  #allocate: Allocate | null = null
  #block: Uint8Array | null = null
  #onDone: () => void = () => undefined

  constructor(address: SenderAddress) {
    const buffer = (): Uint8Array => this.#block ?? this.#buffer
    const callback = (count: number): boolean => {
      this.#left -= count
      if (this.#block !== null) this.#block = this.#block.subarray(count)
      if (this.#block?.length === 0) this.#block = this.#left > 0 ? this.#nextBlock() : null
      if (this.#left === 0) this.#onDone()
      return true
    }
    this.#socket = connect({
      port: address.barePort,
      host: '127.0.0.1',
      noDelay: true,
      onread: { buffer, callback },
    })
  }

  /**
   * Seconds for `bytes` in pieces of a size (a number), or one such piece per turn of the sender's event loop.
   * Without `allocate` they are read into one buffer and counted.
   */
  async read(
    bytes: number,
    pieces: number | `${number} turn`,
    allocate: Allocate | null = null,
  ): Promise<number> {
    this.#left = bytes
    this.#allocate = allocate
    this.#block = this.#nextBlock()
    const done = new Promise<void>((resolve) => {
      this.#onDone = resolve
    })
    const startedAt = performance.now()
    this.#socket.write(`${bytes} ${pieces}\n`)
    await done
    return (performance.now() - startedAt) / 1_000
  }

  #nextBlock(): Uint8Array | null {
    return this.#allocate?.(BLOCK) ?? null
  }

  close(): void {
    this.#socket.destroy()
  }
}
