/**
 * Leases in a folder that several processes share: a lease is a file that is created only if it does not exist. It names its
 * holder, who renews its modification time while alive.
 *
 * An expiry is judged by how long this process has seen a lease unchanged, by its own monotonic clock: wall clocks of
 * machines differ and jump. A holder that was suspended for longer must ask (`renew`) before it acts as the holder.
 */
import { link, open, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { isRecord } from '../../base/index.ts'
import { isProcessAlive } from '../../os/index.ts'
import { diskError, unlessMissing } from './disk-error.ts'

const LEASE_MS = 30_000

export interface LeaseHolder {
  /** Where process ids are comparable (`processPlace`). */
  readonly place: string
  readonly pid: number
  /** Differs for processes with the same pid, one after the other. */
  readonly instance: string
}

/** A lease of another process, as it was when it was seen to change. */
interface Seen {
  readonly mark: string
  readonly sinceMs: number
  lookedMs: number
}

export class LeaseFiles {
  readonly #path: string
  readonly #holder: LeaseHolder
  readonly #self: string
  readonly #nowMs: () => number
  readonly #held = new Set<string>()
  readonly #seen = new Map<string, Seen>()

  /** `holder`: this process. `nowMs`: a monotonic clock. */
  constructor(path: string, holder: LeaseHolder, nowMs: () => number) {
    this.#path = path
    this.#holder = holder
    this.#self = JSON.stringify(holder)
    this.#nowMs = nowMs
  }

  /** Acquires or renews a lease. False: another process holds it, or has taken it over. */
  async take(name: string): Promise<boolean> {
    const path = this.#at(name)
    if (this.#held.has(name)) return await this.#renew(name, path)
    if (await this.#make(path)) return this.#hold(name)
    const abandoned = await this.#abandoned(name, path)
    if (abandoned === null || !(await this.#clear(path, abandoned))) return false
    return (await this.#make(path)) ? this.#hold(name) : false
  }

  /** Renews a lease. False: this process does not hold it, or not any more; then only `take` acquires it again. */
  async renew(name: string): Promise<boolean> {
    return this.#held.has(name) && (await this.#renew(name, this.#at(name)))
  }

  async release(name: string): Promise<void> {
    if (!this.#held.delete(name)) return
    const path = this.#at(name)
    // It may have been taken over by another process, whose lease stays.
    if (await this.#isOwn(path)) await rm(path, { force: true })
  }

  async #renew(name: string, path: string): Promise<boolean> {
    if (!(await this.#isOwn(path))) {
      this.#held.delete(name)
      return false
    }
    const now = new Date()
    await unlessMissing(utimes(path, now, now))
    return true
  }

  async #isOwn(path: string): Promise<boolean> {
    return (await unlessMissing(readFile(path, 'utf8'))) === this.#self
  }

  #hold(name: string): true {
    this.#held.add(name)
    this.#seen.delete(name)
    return true
  }

  async #make(path: string): Promise<boolean> {
    let file: FileHandle | null = null
    try {
      file = await open(path, 'wx', 0o600)
      await file.writeFile(this.#self)
      return true
    } catch (cause) {
      if (file === null && (cause as NodeJS.ErrnoException).code === 'EEXIST') return false
      // An empty lease, as on a full disk, would be nobody's.
      if (file !== null) await rm(path, { force: true })
      throw diskError(cause)
    } finally {
      await file?.close()
    }
  }

  /** Removes an abandoned lease; false if another process was faster. */
  async #clear(path: string, abandoned: string): Promise<boolean> {
    const old = `${path}.${this.#holder.instance}`
    const isTaken = await rename(path, old).then(
      () => true,
      () => false,
    )
    if (!isTaken) return false
    const isSame = (await unlessMissing(readFile(old, 'utf8'))) === abandoned
    // Another process has cleared it before and holds a new one, which goes back.
    if (!isSame) await link(old, path).catch(() => {})
    await rm(old, { force: true })
    return isSame
  }

  /** The content of a lease that has expired, or whose holder is known to be dead; null if it is held. */
  async #abandoned(name: string, path: string): Promise<string | null> {
    const [facts, content] = await Promise.all([
      unlessMissing(stat(path)),
      unlessMissing(readFile(path, 'utf8')),
    ])
    if (facts === undefined || content === undefined) return null
    if (this.#unchangedMs(name, `${facts.mtimeMs} ${content}`) > LEASE_MS) return content
    return this.#isDead(content) ? content : null
  }

  #isDead(content: string): boolean {
    const { place, pid } = this.#holder
    const other = holderOf(content)
    if (other === null || other.place !== place) return false
    // In a container the first process has the same pid after each restart.
    return other.pid === pid ? content !== this.#self : !isProcessAlive(other.pid)
  }

  #unchangedMs(name: string, mark: string): number {
    const nowMs = this.#nowMs()
    const seen = this.#seen.get(name)
    if (seen?.mark === mark) {
      seen.lookedMs = nowMs
      return nowMs - seen.sinceMs
    }
    for (const [other, { lookedMs }] of this.#seen) {
      if (nowMs - lookedMs > 2 * LEASE_MS) this.#seen.delete(other)
    }
    this.#seen.set(name, { mark, sinceMs: nowMs, lookedMs: nowMs })
    return 0
  }

  #at(name: string): string {
    return join(this.#path, `${name}.lease`)
  }
}

function holderOf(content: string): Pick<LeaseHolder, 'place' | 'pid'> | null {
  try {
    const value: unknown = JSON.parse(content)
    if (!isRecord(value)) return null
    const { place, pid } = value
    return typeof place === 'string' && typeof pid === 'number' ? { place, pid } : null
  } catch {
    return null
  }
}
