/**
 * Discovery by a folder: one file per worker. The default of several processes on one machine; no service needed.
 *
 * Who may write into the folder may add workers, so it is made for its owner only (0700).
 */
import { mkdir, readFile, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { BatonError } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { Registration } from '../../worker/index.ts'
import { decodeCardFile } from './card-file.ts'
import type { Discovery, DiscoveryObserver, DiscoveryWatch } from './discovery.ts'
import { entryPath, FileRegistration } from './file-registration.ts'
import { FileWatch } from './file-watch.ts'
import { leaseOf } from './lease.ts'
import type { Lease } from './lease.ts'
import { isProcessAlive } from './process-alive.ts'

export interface FileDiscoveryOptions {
  readonly folder: string
  /** An entry that was not renewed for so long is gone. */
  readonly ttlMs?: number
  /** How often the folder is looked into when the system reports no change. */
  readonly pollMs?: number
  readonly onRenewFailed?: (error: unknown) => void
}

export class FileDiscovery implements Discovery {
  readonly #folder: string
  readonly #lease: Lease
  readonly #onRenewFailed: (error: unknown) => void
  readonly #machine = hostname()
  readonly #registrations = new Set<FileRegistration>()
  readonly #watches = new Set<FileWatch>()

  constructor(options: FileDiscoveryOptions) {
    this.#folder = options.folder
    this.#lease = leaseOf(options.ttlMs, options.pollMs)
    this.#onRenewFailed = options.onRenewFailed ?? (() => undefined)
  }

  async register(card: WorkerCard): Promise<Registration> {
    await this.#makeFolder()
    if (await this.#isTaken(card)) {
      throw new BatonError('request.conflict', `worker ${card.workerId} is registered already`)
    }
    const registration = await FileRegistration.create(
      {
        folder: this.#folder,
        machine: this.#machine,
        renewMs: this.#lease.renewMs,
        onRenewFailed: this.#onRenewFailed,
      },
      card,
    )
    this.#registrations.add(registration)
    return registration
  }

  async watch(observer: DiscoveryObserver): Promise<DiscoveryWatch> {
    await this.#makeFolder()
    const watch = new FileWatch(
      {
        folder: this.#folder,
        machine: this.#machine,
        ttlMs: this.#lease.ttlMs,
        pollMs: this.#lease.pollMs,
      },
      observer,
    )
    await watch.open()
    this.#watches.add(watch)
    return watch
  }

  async close(): Promise<void> {
    for (const watch of this.#watches) watch.close()
    this.#watches.clear()
    const registrations = [...this.#registrations]
    this.#registrations.clear()
    await Promise.all(registrations.map((registration) => registration.close()))
  }

  async #makeFolder(): Promise<void> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      const message = `${this.#folder} cannot be the folder of a fleet (${code})`
      throw new BatonError('config.invalid', message, { cause })
    }
  }

  /** Somebody else's live entry stands under this id. */
  async #isTaken(card: WorkerCard): Promise<boolean> {
    const path = entryPath(this.#folder, card.workerId)
    try {
      const [{ mtimeMs }, text] = await Promise.all([stat(path), readFile(path, 'utf8')])
      if (Date.now() - mtimeMs > this.#lease.ttlMs) return false
      const { card: other, machine } = decodeCardFile(text)
      if (machine !== this.#machine || other.pid === undefined) return true
      return isProcessAlive(other.pid)
    } catch (thrown) {
      // Nothing there, or nothing that makes sense: ours takes its place.
      if (thrown instanceof BatonError) return false
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw thrown
    }
  }
}
