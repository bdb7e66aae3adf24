/**
 * Scans the discovery folder: at once when the operating system reports a change, and periodically, because it does
 * not always do so (and because an entry that is not renewed changes nothing).
 *
 * An entry is valid while it is renewed, by this process's monotonic clock, and, where process ids are comparable,
 * while its process runs. A removed entry is an orderly departure, so the entry of a dead process is deleted only after
 * every other watcher has had the time to notice the death itself. The removal of the whole folder removes no worker:
 * the workers create it again, and until then known entries stay valid for their time to live.
 */
import { constants, watch as watchFolder } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import { access, readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { parseWorkerId } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import { fileErrorText } from '../os/index.ts'
import { checkEntryFile, decodeEntry, hasDied, startedMs } from './card-file.ts'
import type { CardFile } from './card-file.ts'
import type { DiscoveryObserver, DiscoveryWatch, LeaveReason } from './discovery.ts'
import { entryPath } from './file-registration.ts'
import { FleetDiff } from './fleet-diff.ts'
import { Renewals } from './renewals.ts'

interface FileWatchOptions {
  readonly folder: string
  readonly place: string
  readonly ttlMs: number
  readonly pollMs: number
}

interface Entry {
  readonly mtimeMs: number
  readonly size: number
  readonly text: string
  readonly file: CardFile
}

/**
 * After this time it is clear whether a missing file was removed alone, or was the first of a folder that is being
 * removed.
 */
const SECOND_LOOK_MS = 20
/** An entry is deleted this many times to live after its last renewal. */
const LITTER_TTLS = 100
/** The entry of a dead process is deleted after this many: by then it has expired also where its id is unknown. */
const DEAD_TTLS = 2

export class FileWatch implements DiscoveryWatch {
  readonly #options: FileWatchOptions
  readonly #observer: DiscoveryObserver
  readonly #diff: FleetDiff
  readonly #renewals: Renewals
  readonly #entries = new Map<WorkerId, Entry>()
  /** Entries of dead processes that are still in the folder, and when this was noticed. */
  readonly #dead = new Map<WorkerId, { readonly entry: Entry; readonly sinceMs: number }>()
  readonly #unreadable = new Map<string, string>()
  #poll: NodeJS.Timeout | null = null
  #system: FSWatcher | null = null
  /** Device and inode of the folder that `#system` watches. */
  #identity: string | null = null
  #graceUntilMs = -Infinity
  /** Why the last scan failed; null: it did not. */
  #scanFault: string | null = null
  #scanning: Promise<void> | null = null
  #isStale = false
  #isAway = false
  /** Empty: the folder can be read. */
  #awayWhy = ''
  /** The file system is read-only, and no worker renews its entry. */
  #isFrozen = false
  #closed = false

  constructor(options: FileWatchOptions, observer: DiscoveryObserver) {
    this.#options = options
    this.#observer = observer
    this.#diff = new FleetDiff(observer)
    this.#renewals = new Renewals(options.ttlMs, performance.now())
  }

  get cards(): DiscoveryWatch['cards'] {
    return this.#diff.cards
  }

  async open(): Promise<void> {
    const first = this.#scan()
    this.#scanning = this.#afterScan(first.catch(() => undefined))
    await first
    this.#poll = setInterval(() => this.#look(), this.#options.pollMs)
    this.#poll.unref()
    this.#look()
  }

  close(): void {
    this.#closed = true
    this.#system?.close()
    if (this.#poll !== null) clearInterval(this.#poll)
  }

  /** Scans do not overlap; a change during a scan starts one more. */
  #look(): void {
    if (this.#closed) return
    if (this.#scanning !== null) {
      this.#isStale = true
      return
    }
    this.#scanning = this.#afterScan(
      this.#scan().then(
        () => this.#scanned(null),
        (error: unknown) => this.#scanned(fileErrorText(error)),
      ),
    )
  }

  /** Known workers stay in use while the folder cannot be scanned. */
  #scanned(fault: string | null): void {
    const before = this.#scanFault
    if (this.#closed || fault === before) return
    this.#scanFault = fault
    if (fault !== null) {
      this.#observer.discoveryAway?.(`the folder ${this.#options.folder} cannot be read: ${fault}`)
    } else if (!this.#isAway && !this.#isFrozen) this.#observer.discoveryBack?.()
  }

  async #afterScan(scan: Promise<void>): Promise<void> {
    await scan
    this.#scanning = null
    if (!this.#isStale) return
    this.#isStale = false
    this.#look()
  }

  async #scan(): Promise<void> {
    this.#renewals.look(performance.now())
    await this.#checkFolder()
    const found = await this.#readAll()
    if (this.#isFrozen) await this.#checkThaw()
    if (this.#closed) return
    for (const [workerId, entry] of found) {
      await this.#judge(workerId, entry)
      if (this.#closed) return
    }
    for (const workerId of this.#dead.keys()) if (!found.has(workerId)) this.#dead.delete(workerId)
    const missing = [...this.#entries.keys()].filter((workerId) => !found.has(workerId))
    if (missing.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, SECOND_LOOK_MS))
    await this.#checkFolder()
    const names = new Set(await this.#names())
    if (this.#closed) return
    for (const workerId of missing) this.#judgeMissing(workerId, names.has(`${workerId}.json`))
  }

  /** All readable entries, oldest worker first, so that every frontend learns of them in the same order. */
  async #readAll(): Promise<ReadonlyMap<WorkerId, Entry>> {
    const { folder } = this.#options
    const found: [WorkerId, Entry][] = []
    for (const name of await this.#names()) {
      const workerId = parseWorkerId(basename(name, '.json'))
      if (workerId === null) continue
      const entry = await this.#read(workerId, join(folder, name))
      if (entry !== null) found.push([workerId, entry])
    }
    return new Map(
      found.toSorted(
        ([, left], [, right]) => startedMs(left.file.card) - startedMs(right.file.card),
      ),
    )
  }

  async #names(): Promise<readonly string[]> {
    if (this.#identity === null) return []
    try {
      return (await readdir(this.#options.folder)).filter((name) => name.endsWith('.json'))
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw thrown
    }
  }

  /** Detects that the folder was removed or replaced, and watches the new one. */
  async #checkFolder(): Promise<void> {
    const { folder, ttlMs } = this.#options
    const { identity, why } = await lookAt(folder)
    if (this.#closed || (identity === this.#identity && why === this.#awayWhy)) return
    const isFirst = this.#identity === null && this.#system === null
    this.#identity = identity
    this.#awayWhy = why
    this.#system?.close()
    if (!isFirst) this.#graceUntilMs = performance.now() + ttlMs
    if (identity === null) {
      this.#isAway = true
      this.#observer.discoveryAway?.(`the folder ${folder} ${why}`)
      return
    }
    if (this.#isAway) this.#observer.discoveryBack?.()
    this.#isAway = false
    this.#listen()
  }

  #listen(): void {
    const { folder } = this.#options
    try {
      this.#system = watchFolder(folder, (event, name) => {
        // A renewal changes only a file's time. Scanning all files for each would take time quadratic in the number
        // of workers.
        if (event === 'change') return
        // The folder itself was removed; a new one may get the same inode.
        if (name === basename(folder)) this.#identity = 'removed'
        this.#look()
      })
    } catch {
      // Without it periodic scans still work, only slower.
      return
    }
    this.#system.on('error', () => this.#system?.close())
    this.#system.unref()
  }

  async #judge(workerId: WorkerId, entry: Entry): Promise<void> {
    if (this.#hasDied(workerId, entry)) {
      this.#drop(workerId, 'process-died')
      await this.#bury(workerId)
      return
    }
    const isValid = this.#renewals.see(workerId, entry.mtimeMs, performance.now())
    // An entry that has expired does not return because others cannot be renewed.
    if (!isValid && !(this.#entries.has(workerId) && (await this.#freezes()))) {
      this.#entries.delete(workerId)
      this.#diff.gone(workerId, 'expired')
      await this.#sweep(workerId)
      return
    }
    this.#entries.set(workerId, entry)
    this.#diff.seen(entry.file.card, entry.text)
  }

  /** An entry that was not renewed since its process died stays dead, also if another process gets the process id. */
  #hasDied(workerId: WorkerId, entry: Entry): boolean {
    const known = this.#dead.get(workerId)?.entry
    if (known?.mtimeMs === entry.mtimeMs && known.text === entry.text) return true
    this.#dead.delete(workerId)
    if (!hasDied(entry.file, this.#options.place)) return false
    this.#dead.set(workerId, { entry, sinceMs: performance.now() })
    return true
  }

  async #bury(workerId: WorkerId): Promise<void> {
    const { folder, ttlMs } = this.#options
    const sinceMs = this.#dead.get(workerId)?.sinceMs ?? Infinity
    if (performance.now() - sinceMs >= DEAD_TTLS * ttlMs) await remove(entryPath(folder, workerId))
  }

  /** Deletes an entry that was not renewed for long. A worker that was only suspended writes its entry again. */
  async #sweep(workerId: WorkerId): Promise<void> {
    const { folder, ttlMs } = this.#options
    if (this.#renewals.ageMs(workerId, performance.now()) < LITTER_TTLS * ttlMs) return
    if (await remove(entryPath(folder, workerId))) this.#renewals.forget(workerId)
  }

  /** True if the file system is read-only: no worker can renew its entry, so all are granted another time to live. */
  async #freezes(): Promise<boolean> {
    const { folder } = this.#options
    if (!(await isReadOnly(folder)) || this.#closed) return false
    const nowMs = performance.now()
    if (this.#isWritten(nowMs)) return this.#isFrozen
    this.#renewals.grant(nowMs, this.#entries.keys())
    if (this.#isFrozen) return true
    this.#isFrozen = true
    this.#observer.discoveryAway?.(`the folder ${folder} is read-only: workers cannot renew`)
    return true
  }

  async #checkThaw(): Promise<void> {
    const isWritten = this.#isWritten(performance.now())
    if ((!isWritten && (await isReadOnly(this.#options.folder))) || this.#closed) return
    this.#isFrozen = false
    this.#renewals.grant(performance.now(), this.#entries.keys())
    if (!this.#isAway) this.#observer.discoveryBack?.()
  }

  /** Workers renew their entries. If the file system is read-only all the same, it is so for this process only. */
  #isWritten(nowMs: number): boolean {
    return this.#renewals.quietMs(nowMs) < this.#options.ttlMs / 2
  }

  /** `isThere`: the entry exists but cannot be read at the moment. */
  #judgeMissing(workerId: WorkerId, isThere: boolean): void {
    const nowMs = performance.now()
    const isRemoved = !isThere && this.#identity !== null && nowMs >= this.#graceUntilMs
    if (isRemoved) this.#drop(workerId, 'closed')
    else if (!this.#renewals.holds(workerId, nowMs)) this.#drop(workerId, 'expired')
  }

  #drop(workerId: WorkerId, reason: LeaveReason): void {
    this.#entries.delete(workerId)
    this.#renewals.forget(workerId)
    this.#diff.gone(workerId, reason)
  }

  /** Null when it does not exist or is not readable. Only a changed file is read again. */
  async #read(workerId: WorkerId, path: string): Promise<Entry | null> {
    try {
      const stats = await stat(path)
      const { mtimeMs, size } = stats
      const known = this.#entries.get(workerId) ?? this.#dead.get(workerId)?.entry
      if (known !== undefined && known.mtimeMs === mtimeMs && known.size === size) return known
      checkEntryFile(stats)
      const text = await readFile(path, 'utf8')
      const file = text === known?.text ? known.file : decodeEntry(workerId, text)
      this.#unreadable.delete(path)
      return { mtimeMs, size, text, file }
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') this.#reportOnce(path, thrown)
      return null
    }
  }

  #reportOnce(path: string, thrown: unknown): void {
    const why = fileErrorText(thrown)
    if (this.#closed || this.#unreadable.get(path) === why) return
    this.#unreadable.set(path, why)
    this.#observer.unreadable?.(path, why)
  }
}

/** False: this process may not delete it. Such an entry is ignored as long as it is there. */
async function remove(path: string): Promise<boolean> {
  return await rm(path, { force: true }).then(
    () => true,
    () => false,
  )
}

async function isReadOnly(folder: string): Promise<boolean> {
  return await access(folder, constants.W_OK).then(
    () => false,
    (thrown: NodeJS.ErrnoException) => thrown.code === 'EROFS',
  )
}

/** Device and inode of a folder that can be read; otherwise null and the reason. */
async function lookAt(
  folder: string,
): Promise<{ readonly identity: string | null; readonly why: string }> {
  try {
    const stats = await stat(folder)
    if (!stats.isDirectory()) return { identity: null, why: 'is not a folder any more' }
    await access(folder, constants.R_OK | constants.X_OK)
    return { identity: `${stats.dev} ${stats.ino}`, why: '' }
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    return { identity: null, why: code === 'ENOENT' ? 'is gone' : `cannot be read (${code})` }
  }
}
