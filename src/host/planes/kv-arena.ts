/**
 * Shared memory between one KV server and one puller of the same machine: a file in a memory file system, cut in slots.
 *
 *   server: write(slot) ── KV_PLACED ──▶ puller: read(slot) ── KV_TAKEN ──▶ the slot is free again
 *
 * The server makes the file and removes its name as soon as the puller has opened it, so nothing is left behind
 * however either side ends. A nonce at the front tells the puller that it has opened the right file: two machines, or
 * two containers, may have the same path. The few slots are used again and again and stay in the processor's cache.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

import type { KvArenaMessage } from '../../wire/index.ts'

const PREFIX = 'baton-kv-'
const NONCE_BYTES = 16
/** Slots begin at a page of their own. */
const HEAD_BYTES = 4_096

/** What both sides must have in common before shared memory is tried: the running kernel. Null: not to be had here. */
export function machineCapability(shmDir: string | undefined): string | null {
  const bootId = '/proc/sys/kernel/random/boot_id'
  if (shmDir === undefined || !existsSync(shmDir) || !existsSync(bootId)) return null
  return `shm:${readFileSync(bootId, 'utf8').trim()}`
}

/** Removes what a process that was killed in the moment between making and opening has left. */
export function sweepArenas(shmDir: string): void {
  for (const name of readdirSync(shmDir)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1]
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(shmDir, name), { force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The server's end. */
export class KvArenaWriter {
  readonly message: KvArenaMessage
  readonly #fd: number
  readonly #free: number[] = []
  #isClosed = false

  constructor(shmDir: string, slotBytes: number, slotCount: number) {
    const name = `${PREFIX}${process.pid}-${randomBytes(8).toString('hex')}`
    const bytes = HEAD_BYTES + slotBytes * slotCount
    const nonce = randomBytes(NONCE_BYTES)
    this.message = { bytes, slotBytes, nonce, path: join(shmDir, name) }
    this.#fd = openSync(this.message.path, 'wx', 0o600)
    ftruncateSync(this.#fd, bytes)
    writeSync(this.#fd, nonce, 0, NONCE_BYTES, 0)
    for (let slot = slotCount - 1; slot >= 0; slot--) this.#free.push(slot)
  }

  /** The slot that now holds the bytes; null when all are with the puller, or the memory file system is full. */
  write(bytes: Uint8Array): number | null {
    const slot = this.#free.pop()
    if (slot === undefined) return null
    const at = HEAD_BYTES + slot * this.message.slotBytes
    if (writeWhole(this.#fd, bytes, at)) return slot
    this.#free.push(slot)
    return null
  }

  get hasRoom(): boolean {
    return this.#free.length > 0
  }

  free(slot: number): void {
    const slotCount = (this.message.bytes - HEAD_BYTES) / this.message.slotBytes
    if (slot < slotCount && !this.#free.includes(slot)) this.#free.push(slot)
  }

  /** The puller has it open (or never will): the name is not needed any more. */
  unlink(): void {
    rmSync(this.message.path, { force: true })
  }

  /** Idempotent. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.unlink()
    closeSync(this.#fd)
  }
}

/** False: there was no room for all of it. */
function writeWhole(fd: number, bytes: Uint8Array, at: number): boolean {
  try {
    return writeSync(fd, bytes, 0, bytes.length, at) === bytes.length
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false
    throw error
  }
}

/** The puller's end. */
export class KvArenaReader {
  readonly #fd: number
  readonly #slotBytes: number
  readonly #bytes: number
  /** Read, and not yet given back. */
  #taken: number[] = []
  #isClosed = false

  private constructor(fd: number, message: KvArenaMessage) {
    this.#fd = fd
    this.#slotBytes = message.slotBytes
    this.#bytes = message.bytes
  }

  /** Null when the file is not there, not in `shmDir`, or not the one that the server means. */
  static open(shmDir: string, message: KvArenaMessage): KvArenaReader | null {
    const { path, bytes, nonce } = message
    if (dirname(path) !== shmDir || !path.startsWith(join(shmDir, PREFIX))) return null
    let fd: number
    try {
      // Without blocking: a name can also be that of a pipe.
      fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    } catch {
      return null
    }
    const found = Buffer.alloc(NONCE_BYTES)
    const status = fstatSync(fd)
    const isFile = status.isFile() && status.size >= bytes
    if (isFile && readSync(fd, found, 0, NONCE_BYTES, 0) === NONCE_BYTES && found.equals(nonce)) {
      return new KvArenaReader(fd, message)
    }
    closeSync(fd)
    return null
  }

  /** Fills `into` from a slot; false when the slot cannot hold so much. */
  read(slot: number, into: Uint8Array): boolean {
    const at = HEAD_BYTES + slot * this.#slotBytes
    if (into.length > this.#slotBytes || at + into.length > this.#bytes) return false
    return readSync(this.#fd, into, 0, into.length, at) === into.length
  }

  /** The server may have the slot again. */
  noteTaken(slot: number): void {
    this.#taken.push(slot)
  }

  /** What is to be told to the server: several at a time, since each message wakes it; a quarter of all at most is kept. */
  slotsToGive(isIdle: boolean): readonly number[] {
    const slotCount = Math.floor((this.#bytes - HEAD_BYTES) / this.#slotBytes)
    if (!isIdle && this.#taken.length < slotCount / 4) return []
    const slots = this.#taken
    this.#taken = []
    return slots
  }

  /** Idempotent. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    closeSync(this.#fd)
  }
}
