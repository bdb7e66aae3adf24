/**
 * A folder on disk for files and batches. A file is first written under another name and then renamed, so that
 * a partly written one is never read.
 *
 * A lease is a file that is created only if it does not exist. It names its holder, who renews its modification
 * time while alive.
 */
import { accessSync, constants, createReadStream } from 'node:fs'
import {
  appendFile,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { BatonError, isRecord } from '../../base/index.ts'
import type { BatchFolder } from '../../frontend/index.ts'
import { makeFolders } from '../../os/index.ts'

const PIECE_BYTES = 64 * 1024
const LEASE_MS = 30_000

export class DiskFolder implements BatchFolder {
  readonly #path: string
  readonly #self: string
  readonly #held = new Set<string>()
  #written = 0

  /** `instance` identifies this process among all processes, including earlier ones with the same pid. */
  private constructor(path: string, instance: string) {
    this.#path = path
    this.#self = JSON.stringify({ host: hostname(), pid: process.pid, instance })
  }

  /** Throws `config.invalid` when the folder cannot be created or written. */
  static open(path: string, instance: string): DiskFolder {
    try {
      makeFolders(path)
      accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
      return new DiskFolder(path, instance)
    } catch (cause) {
      const text = `--files-dir ${path} cannot be used: ${(cause as Error).message}`
      throw new BatonError('config.invalid', text, { cause })
    }
  }

  async names(): Promise<readonly string[]> {
    return await readdir(this.#path)
  }

  async read(name: string): Promise<string | undefined> {
    return await unlessMissing(readFile(this.#at(name), 'utf8'))
  }

  async write(name: string, content: string | Uint8Array): Promise<void> {
    this.#written += 1
    const draft = this.#at(`.draft-${process.pid}-${this.#written}-${name}`)
    try {
      await writeFile(draft, content, { mode: 0o600 })
      await rename(draft, this.#at(name))
    } catch (cause) {
      await rm(draft, { force: true })
      throw diskError(cause)
    }
  }

  async append(name: string, content: string | Uint8Array): Promise<void> {
    try {
      await appendFile(this.#at(name), content, { mode: 0o600 })
    } catch (cause) {
      throw diskError(cause)
    }
  }

  async truncate(name: string, bytes: number): Promise<void> {
    await truncate(this.#at(name), bytes)
  }

  async *pieces(name: string): AsyncGenerator<Uint8Array> {
    if ((await this.bytesOf(name)) === undefined) return
    yield* createReadStream(this.#at(name), { highWaterMark: PIECE_BYTES })
  }

  async bytesOf(name: string): Promise<number | undefined> {
    return (await unlessMissing(stat(this.#at(name))))?.size
  }

  async idleSeconds(name: string): Promise<number | undefined> {
    const facts = await unlessMissing(stat(this.#at(name)))
    return facts === undefined ? undefined : (Date.now() - facts.mtimeMs) / 1000
  }

  async bytesOfAll(): Promise<number> {
    const names = await this.names()
    const sizes = await Promise.all(names.map(async (name) => (await this.bytesOf(name)) ?? 0))
    return sizes.reduce((sum, size) => sum + size, 0)
  }

  async remove(name: string): Promise<boolean> {
    const wasThere = (await this.bytesOf(name)) !== undefined
    await rm(this.#at(name), { force: true })
    return wasThere
  }

  async lease(name: string): Promise<boolean> {
    const path = this.#at(leaseName(name))
    if (this.#held.has(name)) return await this.#renew(name, path)
    if (await this.#make(path)) return this.#hold(name)
    if (!(await this.#isAbandoned(path))) return false
    // When several processes see an abandoned lease, only one of them can rename the old file.
    const old = `${path}.${process.pid}`
    const taken = await rename(path, old).then(
      () => true,
      () => false,
    )
    if (!taken) return false
    await rm(old, { force: true })
    return (await this.#make(path)) ? this.#hold(name) : false
  }

  async release(name: string): Promise<void> {
    if (this.#held.delete(name)) await rm(this.#at(leaseName(name)), { force: true })
  }

  /** Returns false when the lease was not renewed in time and another process has taken it. */
  async #renew(name: string, path: string): Promise<boolean> {
    if ((await unlessMissing(readFile(path, 'utf8'))) !== this.#self) {
      this.#held.delete(name)
      return false
    }
    const now = new Date()
    await unlessMissing(utimes(path, now, now))
    return true
  }

  #hold(name: string): true {
    this.#held.add(name)
    return true
  }

  async #make(path: string): Promise<boolean> {
    try {
      const file = await open(path, 'wx', 0o600)
      await file.writeFile(this.#self)
      await file.close()
      return true
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw diskError(cause)
    }
  }

  /** True when the lease has expired, or its holder is known to be dead. */
  async #isAbandoned(path: string): Promise<boolean> {
    const [facts, content] = await Promise.all([
      unlessMissing(stat(path)),
      unlessMissing(readFile(path, 'utf8')),
    ])
    if (facts === undefined || content === undefined) return true
    if (Date.now() - facts.mtimeMs > LEASE_MS) return true
    const holder = holderOf(content)
    if (holder === null || holder.host !== hostname()) return false
    // In a container the first process has the same pid after each restart.
    return holder.pid === process.pid ? content !== this.#self : !isAlive(holder.pid)
  }

  #at(name: string): string {
    return join(this.#path, name)
  }
}

const leaseName = (name: string): string => `${name}.lease`

function holderOf(content: string): { readonly host: string; readonly pid: number } | null {
  try {
    const value: unknown = JSON.parse(content)
    if (!isRecord(value)) return null
    const { host, pid } = value
    return typeof host === 'string' && typeof pid === 'number' ? { host, pid } : null
  } catch {
    return null
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

async function unlessMissing<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function diskError(cause: unknown): BatonError {
  const { code } = cause as NodeJS.ErrnoException
  const isFull = code === 'ENOSPC' || code === 'EDQUOT'
  const text = isFull
    ? 'files and batches cannot be written: the disk or the quota is full'
    : `files and batches cannot be written: ${String(cause)}`
  return new BatonError(isFull ? 'host.disk_full' : 'runtime.internal', text, { cause })
}
