/**
 * Frees memory of `ArrayBuffer`s at once instead of leaving it to the garbage collector.
 *
 * V8 counts memory outside of its heap, garbage or not, and collects the whole heap after every few ten megabytes of
 * it. With bodies of hundreds of kilobytes these collections cost more than everything else. Memory that is freed is
 * not counted any more.
 *
 * Whoever makes a large array for the time of a request may call `ownMemory`, and the last reader `freeOwned`. This is
 * optional: what is not freed is garbage like any other. Memory that others made (a program that embeds Baton, a cache) is
 * never freed. The arrays that still refer to freed memory become empty, so code that reads too late finds nothing.
 */

/** To free less costs more than it saves. */
const FREED_BYTES_MIN = 16 * 1024

const owned = new WeakSet<ArrayBuffer>()

interface Port {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void
  close(): void
}

/** Has no receiver, so the memory that moves with a message is freed. */
let closedPort: Port | null = null

/** The caller vouches that it has made the memory, and that nobody else keeps it without knowing about `freeOwned`. */
export function ownMemory(memory: ArrayBufferLike): void {
  if (memory instanceof ArrayBuffer && memory.byteLength >= FREED_BYTES_MIN) owned.add(memory)
}

/** The caller vouches that nobody reads or writes the memory any more. */
export function freeOwned(memory: ArrayBufferLike): void {
  if (memory instanceof ArrayBuffer && owned.delete(memory)) freeMemory(memory)
}

/** As `freeOwned`, for memory of the caller. */
export function freeMemory(memory: ArrayBuffer): void {
  if (memory.byteLength < FREED_BYTES_MIN) return
  if (closedPort === null) {
    closedPort = new MessageChannel().port1
    closedPort.close()
  }
  closedPort.postMessage(null, [memory])
}
