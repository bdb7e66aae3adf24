/**
 * The storage of files and batches: named files that survive the process and may be shared by several
 * frontends.
 *
 * Names consist of letters, digits, `_`, `-` and `.`. The implementation is passed in, so this room does not
 * depend on a disk.
 */
export interface BatchFolder {
  /** The names of all stored files, unordered. */
  names(): Promise<readonly string[]>
  /** Undefined: the file does not exist. */
  read(name: string): Promise<string | undefined>
  /** Atomic, also when the process dies during the write. */
  write(name: string, content: string | Uint8Array): Promise<void>
  /** Appends to the file, which is created if it does not exist. */
  append(name: string, content: string | Uint8Array): Promise<void>
  /**
   * Makes the file one that only the caller appends to: what its earlier owner still writes is lost. It keeps its first
   * `bytes`, which it has. `mayOwn` is asked when these are copied, which may take long: null, and nothing is changed, if
   * another process has become the owner meanwhile.
   */
  own(name: string, bytes: number, mayOwn: () => Promise<boolean>): Promise<OwnFile | null>
  /** The content, or its first `bytes`, in pieces of about 64 KiB; none if the file does not exist. */
  pieces(name: string, bytes?: number): AsyncIterable<Uint8Array>
  /** Size in bytes; undefined: the file does not exist. */
  bytesOf(name: string): Promise<number | undefined>
  bytesOfAll(): Promise<number>
  /** Seconds since the last write; undefined: the file does not exist. */
  idleSeconds(name: string): Promise<number | undefined>
  /** Returns whether the file existed. */
  remove(name: string): Promise<boolean>
  /**
   * Acquires or renews a lease, in files named `<name>.lease…`. False: another process holds it, or has taken it because
   * it was not renewed for half a minute.
   */
  lease(name: string): Promise<boolean>
  /** Renews a lease. False: this process does not hold it any more, even if it is free now. */
  renewLease(name: string): Promise<boolean>
  release(name: string): Promise<void>
}

export interface OwnFile {
  append(content: Uint8Array): Promise<void>
  close(): Promise<void>
}

export interface BatchOptions {
  readonly folder: BatchFolder
  /** Largest single file. */
  readonly fileBytesMax: number
  /** Limit for all files together, including the output of batches. */
  readonly bytesMax: number
  /** Files and batches are deleted after this time. */
  readonly keepSeconds: number
  /** Most requests of batches that run at a time in this process. */
  readonly requestsMax: number
}
