/**
 * Stored files: a record and the bytes, each of one tenant and invisible to others.
 *
 * The record is written last and deleted first. Bytes without a record are therefore never served: they belong
 * to a batch that is still writing, or were left by a process that died.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { BatchOptions } from './batch-folder.ts'

export interface StoredFile {
  readonly id: string
  readonly tenant: string
  readonly bytes: number
  readonly createdSeconds: number
  readonly expiresSeconds: number
  readonly fileName: string
  readonly purpose: string
}

const FILE_ID = /^file-[0-9a-f]{32}$/
const ABANDONED = /^(file-[0-9a-f]{32})\.content$/
const ABANDONED_SECONDS = 2 * 86_400

export class StoredFiles {
  readonly #options: BatchOptions
  readonly #clock: Clock

  constructor(options: BatchOptions, clock: Clock) {
    this.#options = options
    this.#clock = clock
  }

  /** Creates a file of bytes that are stored already. */
  async publish(
    file: Omit<StoredFile, 'createdSeconds' | 'expiresSeconds' | 'bytes'>,
    bytes: number,
    keepSeconds = this.#options.keepSeconds,
  ): Promise<StoredFile> {
    const createdSeconds = this.#nowSeconds()
    const stored = { ...file, bytes, createdSeconds, expiresSeconds: createdSeconds + keepSeconds }
    await this.#options.folder.write(recordName(file.id), JSON.stringify(stored))
    return stored
  }

  /** Throws `request.not_found`. */
  async file(id: string, tenant: string): Promise<StoredFile> {
    const found = FILE_ID.test(id) ? await this.#read(id) : null
    if (found === null || found.tenant !== tenant || found.expiresSeconds <= this.#nowSeconds()) {
      throw new BatonError('request.not_found', `there is no file \`${id.slice(0, 100)}\``)
    }
    return found
  }

  /** Newest first. */
  async list(tenant: string): Promise<StoredFile[]> {
    const all = await this.#all()
    const nowSeconds = this.#nowSeconds()
    return all
      .filter((file) => file.tenant === tenant && file.expiresSeconds > nowSeconds)
      .toSorted(newestFirst)
  }

  /** Throws `request.not_found`. */
  async delete(id: string, tenant: string): Promise<void> {
    await this.file(id, tenant)
    await this.#remove(id)
  }

  content(id: string, bytes?: number): AsyncIterable<Uint8Array> {
    return this.#options.folder.pieces(contentName(id), bytes)
  }

  /** `inUse`: ids of files that batches write, which may take weeks and pause for days. */
  async forgetExpired(inUse: ReadonlySet<string>): Promise<void> {
    const nowSeconds = this.#nowSeconds()
    for (const { id, expiresSeconds } of await this.#all()) {
      if (expiresSeconds <= nowSeconds) await this.#remove(id)
    }
    await this.#forgetAbandoned(inUse)
  }

  /** Deletes bytes without a record that were last written long ago: their process died. */
  async #forgetAbandoned(inUse: ReadonlySet<string>): Promise<void> {
    const { folder } = this.#options
    for (const name of await folder.names()) {
      const [, id] = ABANDONED.exec(name) ?? []
      if (id === undefined && !name.startsWith('.draft-')) continue
      if (id !== undefined && inUse.has(id)) continue
      if (id !== undefined && (await folder.bytesOf(recordName(id))) !== undefined) continue
      const idle = await folder.idleSeconds(name)
      if (idle !== undefined && idle > ABANDONED_SECONDS) await folder.remove(name)
    }
  }

  async #remove(id: string): Promise<void> {
    const { folder } = this.#options
    await folder.remove(recordName(id))
    await folder.remove(contentName(id))
  }

  async #all(): Promise<StoredFile[]> {
    const names = await this.#options.folder.names()
    const ids = names.flatMap((name) => (/^(file-[0-9a-f]{32})\.json$/.exec(name) ?? []).slice(1))
    const files = await Promise.all(ids.map(async (id) => await this.#read(id)))
    return files.filter((file) => file !== null)
  }

  async #read(id: string): Promise<StoredFile | null> {
    const value = jsonOf(await this.#options.folder.read(recordName(id)))
    return value === null ? null : (value as unknown as StoredFile)
  }

  #nowSeconds(): number {
    return Math.floor(this.#clock.epochMs() / 1000)
  }
}

export const contentName = (id: string): string => `${id}.content`
const recordName = (id: string): string => `${id}.json`

/** Null: the text is missing, or is not a record of this program. */
export function jsonOf(text: string | undefined): Record<string, unknown> | null {
  if (text === undefined) return null
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}

export function newestFirst(
  left: { readonly id: string; readonly createdSeconds: number },
  right: { readonly id: string; readonly createdSeconds: number },
): number {
  if (left.createdSeconds !== right.createdSeconds)
    return right.createdSeconds - left.createdSeconds
  return left.id < right.id ? 1 : -1
}

export function fullError(bytesMax: number): BatonError {
  const text = `files and batches may take ${bytesMax} bytes here, and this would exceed the limit: delete files, or raise --files-limit`
  return new BatonError('host.disk_full', text, { data: { limit: bytesMax } })
}
