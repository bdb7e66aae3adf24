/**
 * Discovery by a folder with one file per worker. The default for several processes on one machine; needs no
 * service.
 */
import { readFile, stat } from 'node:fs/promises'
import { BatonError } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import { isProcessAlive, processPlace } from '../os/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'
import { checkEntryFile, decodeCardFile } from './card-file.ts'
import type {
  Discovery,
  DiscoveryObserver,
  DiscoveryWatch,
  RegistrationObserver,
} from './discovery.ts'
import { entryPath, FileRegistration } from './file-registration.ts'
import { FileWatch } from './file-watch.ts'
import { makeFleetFolder } from './fleet-folder.ts'
import { leaseOf } from './lease.ts'
import type { Lease } from './lease.ts'

export interface FileDiscoveryOptions {
  readonly folder: string
  /** An entry that was not renewed for this time has expired. */
  readonly ttlMs?: number
  /** Interval of scans when the operating system reports no change. */
  readonly pollMs?: number
  /** Called when the folder did not exist and was created; its path may be mistyped. */
  readonly onFolderMade?: (folder: string) => void
  /** Where this process's id is valid; absent: determined from the system. For tests. */
  readonly place?: string
}

export class FileDiscovery implements Discovery {
  readonly #options: FileDiscoveryOptions
  readonly #lease: Lease
  readonly #place: string
  /** Also closed ones, until the id is registered again. */
  readonly #registrations = new Map<WorkerId, FileRegistration>()
  readonly #watches = new Set<FileWatch>()

  constructor(options: FileDiscoveryOptions) {
    this.#options = options
    this.#lease = leaseOf(options.ttlMs, options.pollMs)
    this.#place = options.place ?? processPlace()
  }

  async register(card: WorkerCard, observer: RegistrationObserver = {}): Promise<Registration> {
    const { folder } = this.#options
    await this.#makeFolder()
    if (await this.#isTaken(card)) {
      throw new BatonError('request.conflict', `worker ${card.workerId} is registered already`)
    }
    const { renewMs } = this.#lease
    const registration = await FileRegistration.create(
      { folder, place: this.#place, renewMs, observer },
      card,
    )
    this.#registrations.set(card.workerId, registration)
    return registration
  }

  async watch(observer: DiscoveryObserver): Promise<DiscoveryWatch> {
    const { folder } = this.#options
    await this.#makeFolder()
    const { ttlMs, pollMs } = this.#lease
    const watch = new FileWatch({ folder, place: this.#place, ttlMs, pollMs }, observer)
    await watch.open()
    this.#watches.add(watch)
    return watch
  }

  async close(): Promise<void> {
    for (const watch of this.#watches) watch.close()
    this.#watches.clear()
    const registrations = [...this.#registrations.values()]
    this.#registrations.clear()
    // Entries that cannot be removed expire.
    await Promise.all(
      registrations.map((registration) => registration.close().catch(() => undefined)),
    )
  }

  async #makeFolder(): Promise<void> {
    const { folder, onFolderMade } = this.#options
    if (await makeFleetFolder(folder)) onFolderMade?.(folder)
  }

  /**
   * Returns whether another live worker is registered under this id. The liveness of a process elsewhere shows only
   * in its renewals, which takes up to the time to live.
   */
  async #isTaken(card: WorkerCard): Promise<boolean> {
    const path = entryPath(this.#options.folder, card.workerId)
    const { ttlMs, renewMs } = this.#lease
    const before = this.#registrations.get(card.workerId)
    const first = await this.#foreignMark(path, before)
    if (typeof first === 'boolean') return first
    const endMs = performance.now() + ttlMs
    while (performance.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, renewMs / 4))
      const mark = await this.#foreignMark(path, before)
      if (mark !== first) return mark !== false
    }
    return false
  }

  /**
   * False: there is no live owner; true: its process is alive; a number: a mark that changes while its owner is
   * alive. `before`: the last registration of this process under the id.
   */
  async #foreignMark(
    path: string,
    before: FileRegistration | undefined,
  ): Promise<boolean | number> {
    try {
      const stats = await stat(path)
      checkEntryFile(stats)
      const text = await readFile(path, 'utf8')
      if (before?.hasLeft(text) === true) return false
      const { card: other, machine } = decodeCardFile(text)
      if (machine !== this.#place || other.pid === undefined) return stats.mtimeMs
      return isProcessAlive(other.pid)
    } catch (thrown) {
      // An absent or invalid entry is replaced.
      if (thrown instanceof BatonError) return false
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw thrown
    }
  }
}
