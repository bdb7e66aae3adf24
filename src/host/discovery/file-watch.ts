/**
 * Looks into the discovery folder: at once when the system says that something changed, and regularly, because it
 * does not always say so (and because an entry that is not renewed changes nothing).
 *
 * An entry counts as long as its file was touched within the time to live and, on this machine, its process lives.
 * The age of a file is compared with this machine's clock, so a shared folder wants clocks that agree within the time
 * to live.
 */
import { watch as watchFolder } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { BatonError, parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { decodeCardFile } from './card-file.ts'
import type { CardFile } from './card-file.ts'
import type { DiscoveryObserver, DiscoveryWatch, LeaveReason } from './discovery.ts'
import { FleetDiff } from './fleet-diff.ts'
import { isProcessAlive } from './process-alive.ts'

interface FileWatchOptions {
  readonly folder: string
  readonly machine: string
  readonly ttlMs: number
  readonly pollMs: number
}

interface Entry {
  readonly mtimeMs: number
  readonly size: number
  readonly text: string
  readonly file: CardFile
}

export class FileWatch implements DiscoveryWatch {
  readonly #options: FileWatchOptions
  readonly #observer: DiscoveryObserver
  readonly #diff: FleetDiff
  readonly #entries = new Map<WorkerId, Entry>()
  readonly #unreadable = new Map<string, string>()
  #poll: NodeJS.Timeout | null = null
  #system: FSWatcher | null = null
  #scanning: Promise<void> | null = null
  #isStale = false
  #closed = false

  constructor(options: FileWatchOptions, observer: DiscoveryObserver) {
    this.#options = options
    this.#observer = observer
    this.#diff = new FleetDiff(observer)
  }

  get cards(): DiscoveryWatch['cards'] {
    return this.#diff.cards
  }

  async open(): Promise<void> {
    await this.#scan()
    this.#system = watchFolder(this.#options.folder, () => this.#look())
    // Polling goes on without it, only slower.
    this.#system.on('error', () => this.#system?.close())
    this.#system.unref()
    this.#poll = setInterval(() => this.#look(), this.#options.pollMs)
    this.#poll.unref()
    this.#look()
  }

  close(): void {
    this.#closed = true
    this.#system?.close()
    if (this.#poll !== null) clearInterval(this.#poll)
  }

  /** One scan at a time; a change during a scan asks for one more. */
  #look(): void {
    if (this.#closed) return
    if (this.#scanning !== null) {
      this.#isStale = true
      return
    }
    this.#scanning = this.#scan()
      .catch((error: unknown) => this.#reportFolder(error))
      .finally(() => {
        this.#scanning = null
        if (!this.#isStale) return
        this.#isStale = false
        this.#look()
      })
  }

  async #scan(): Promise<void> {
    const { folder } = this.#options
    const names = (await readdir(folder)).filter((name) => name.endsWith('.json'))
    const there = new Set<WorkerId>()
    for (const name of names) {
      const workerId = parseWorkerId(basename(name, '.json'))
      if (workerId === null) continue
      const entry = await this.#read(workerId, join(folder, name))
      if (this.#closed) return
      if (entry !== null && (await this.#judge(workerId, entry))) there.add(workerId)
    }
    for (const workerId of this.#entries.keys()) {
      if (!there.has(workerId)) this.#drop(workerId, 'closed')
    }
  }

  /** True when the entry counts; tells the observer either way. */
  async #judge(workerId: WorkerId, entry: Entry): Promise<boolean> {
    const { machine, ttlMs, folder } = this.#options
    const { card } = entry.file
    const isHere = entry.file.machine === machine
    if (isHere && card.pid !== undefined && !isProcessAlive(card.pid)) {
      this.#drop(workerId, 'process-died')
      await rm(join(folder, `${workerId}.json`), { force: true })
      return false
    }
    if (Date.now() - entry.mtimeMs > ttlMs) {
      this.#drop(workerId, 'expired')
      return false
    }
    this.#entries.set(workerId, entry)
    this.#diff.seen(card, entry.text)
    return true
  }

  #drop(workerId: WorkerId, reason: LeaveReason): void {
    this.#entries.delete(workerId)
    this.#diff.gone(workerId, reason)
  }

  /** Null when it is not there or not readable. Only a changed file is read again. */
  async #read(workerId: WorkerId, path: string): Promise<Entry | null> {
    try {
      const { mtimeMs, size } = await stat(path)
      const known = this.#entries.get(workerId)
      if (known !== undefined && known.mtimeMs === mtimeMs && known.size === size) return known
      const text = await readFile(path, 'utf8')
      const file = text === known?.text ? known.file : decodeCardFile(text)
      if (file.card.workerId !== workerId) {
        throw new BatonError('transport.protocol', 'the entry is of another worker than its name')
      }
      this.#unreadable.delete(path)
      return { mtimeMs, size, text, file }
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') this.#reportOnce(path, thrown)
      return null
    }
  }

  #reportFolder(thrown: unknown): void {
    this.#reportOnce(this.#options.folder, thrown)
  }

  #reportOnce(path: string, thrown: unknown): void {
    const why = BatonError.from(thrown).message
    if (this.#closed || this.#unreadable.get(path) === why) return
    this.#unreadable.set(path, why)
    this.#observer.unreadable?.(path, why)
  }
}
