/**
 * Where files and batches are kept: named things that outlive the process and may be shared by several frontends.
 *
 * Names are letters, digits, `_`, `-` and `.`. The driver is handed in; nothing here knows of a disk.
 */
export interface BatchFolder {
  /** Of all that is there, in no order. */
  names(): Promise<readonly string[]>
  /** Undefined: it is not there. */
  read(name: string): Promise<string | undefined>
  /** Whole or not at all, also when the process dies meanwhile. */
  write(name: string, content: string | Uint8Array): Promise<void>
  /** Behind what is there; begins it when nothing is. */
  append(name: string, content: string | Uint8Array): Promise<void>
  /** Takes away what lies behind so many bytes. */
  truncate(name: string, bytes: number): Promise<void>
  /** In pieces of 64 KiB or so. Nothing comes when it is not there. */
  pieces(name: string): AsyncIterable<Uint8Array>
  /** Undefined: it is not there. */
  bytesOf(name: string): Promise<number | undefined>
  bytesOfAll(): Promise<number>
  /** Since it was last written; undefined: it is not there. */
  idleSeconds(name: string): Promise<number | undefined>
  /** Whether it was there. */
  remove(name: string): Promise<boolean>
  /**
   * Takes what this name stands for, or goes on with it. False: another process that lives has it. Who does not call again
   * within half a minute has lost it.
   */
  lease(name: string): Promise<boolean>
  release(name: string): Promise<void>
}

export interface BatchOptions {
  readonly folder: BatchFolder
  /** One file. */
  readonly fileBytesMax: number
  /** All files, those that batches write included. */
  readonly bytesMax: number
  /** Files and batches are forgotten after so long. */
  readonly keepSeconds: number
  /** Requests of batches that run at a time in this process. */
  readonly requestsMax: number
}
