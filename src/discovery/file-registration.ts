/**
 * One worker's file in the discovery folder: written atomically (a new file, renamed over the old one), touched
 * every third of the time to live, removed at the end. When file or folder are removed by others, they are created
 * again at once; a file that others have damaged is written again at the next touch.
 */
import { watch as watchFolder } from 'node:fs'
import type { FSWatcher } from 'node:fs'
import { lstat, readFile, rm, stat, utimes } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { BatonError } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { Registration } from '../worker/index.ts'
import { checkEntryFile, decodeEntry, encodeCardFile } from './card-file.ts'
import type { RegistrationObserver } from './discovery.ts'
import { makeFleetFolder, writeWhole } from './fleet-folder.ts'

interface FileRegistrationOptions {
  readonly folder: string
  readonly place: string
  readonly renewMs: number
  readonly observer: RegistrationObserver
}

export class FileRegistration implements Registration {
  readonly #options: FileRegistrationOptions
  #card: WorkerCard
  #text = ''
  #beat: NodeJS.Timeout | null = null
  #system: FSWatcher | null = null
  #closed = false
  #isRemoved = false
  #hasFailed = false
  /** Serialises writes, heartbeats and the removal, because a late heartbeat must not restore a removed file. */
  #turn: Promise<void> = Promise.resolve()

  private constructor(options: FileRegistrationOptions, card: WorkerCard) {
    this.#options = options
    this.#card = card
  }

  static async create(
    options: FileRegistrationOptions,
    card: WorkerCard,
  ): Promise<FileRegistration> {
    const registration = new FileRegistration(options, card)
    await registration.#write()
    registration.#listen()
    registration.#beat = setInterval(() => registration.#renew(), options.renewMs)
    registration.#beat.unref()
    return registration
  }

  get path(): string {
    return entryPath(this.#options.folder, this.#card.workerId)
  }

  update(card: WorkerCard): Promise<void> {
    this.#card = { ...card, workerId: this.#card.workerId }
    return this.#inTurn(() => (this.#closed ? Promise.resolve() : this.#write()))
  }

  close(): Promise<void> {
    this.#closed = true
    this.#system?.close()
    if (this.#beat !== null) clearInterval(this.#beat)
    return this.#inTurn(async () => {
      // Another worker may have the id by now.
      if (this.#isRemoved) return
      await rm(this.path, { force: true })
      this.#isRemoved = true
    })
  }

  /** An entry with this text is what is left after `close`, which may have failed: no worker has it any more. */
  hasLeft(text: string): boolean {
    return this.#closed && text === this.#text
  }

  #renew(): void {
    this.#inTurn(async () => {
      if (this.#closed) return
      const now = new Date()
      try {
        await this.#check()
        await utimes(this.path, now, now)
      } catch (thrown) {
        await this.#restore(thrown instanceof BatonError ? thrown.message : null)
      }
      this.#hasFailed = false
    }).catch((thrown: unknown) => {
      // Reported once per failure, not per heartbeat.
      if (!this.#hasFailed) this.#options.observer.renewalFailed?.(BatonError.from(thrown))
      this.#hasFailed = true
    })
  }

  /** Throws when the file is gone, cannot be read by frontends, or differs from what this process wrote. */
  async #check(): Promise<void> {
    // Of a link itself: a touch would change the file that it names.
    checkEntryFile(await lstat(this.path))
    const text = await readFile(this.path, 'utf8')
    if (text === this.#text) return
    const { card, machine } = decodeEntry(this.#card.workerId, text)
    // Another process may have taken the id over while this one was suspended.
    const isOwn = machine === this.#options.place && card.pid === this.#card.pid
    if (isOwn) throw new BatonError('transport.protocol', 'its content differs')
  }

  /**
   * Called when the file was removed (by a watcher, while this process was suspended), or the folder; `damage` says
   * what is wrong with a file that is there.
   */
  async #restore(damage: string | null = null): Promise<void> {
    const { folder, observer } = this.#options
    const isNewFolder = await makeFleetFolder(folder)
    await this.#write()
    if (isNewFolder) this.#listen()
    const what = isNewFolder ? `the folder ${folder}` : `the entry ${this.path}`
    const why = damage === null ? 'was removed' : `was changed by others (${damage})`
    observer.restored?.(`${what} ${why}; the worker has registered again`)
  }

  /**
   * The removal of the file is noticed at once when the operating system reports it, otherwise at the next
   * heartbeat.
   */
  #listen(): void {
    const { folder } = this.#options
    const names = new Set([basename(this.path), basename(folder)])
    this.#system?.close()
    try {
      this.#system = watchFolder(folder, (event, name) => {
        if (event !== 'change' && (name === null || names.has(name))) this.#renewIfGone()
      })
      this.#system.on('error', () => this.#system?.close())
      this.#system.unref()
    } catch {
      this.#system = null
    }
  }

  #renewIfGone(): void {
    this.#inTurn(async () => {
      if (this.#closed || (await isThere(this.path))) return
      await this.#restore()
    }).catch(() => undefined)
  }

  async #write(): Promise<void> {
    const { folder, place } = this.#options
    this.#text = encodeCardFile({ card: this.#card, machine: place })
    await writeWhole(folder, this.path, this.#text)
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }
}

async function isThere(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}

export function entryPath(folder: string, workerId: string): string {
  return join(folder, `${workerId}.json`)
}
