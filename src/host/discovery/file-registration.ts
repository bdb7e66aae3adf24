/**
 * One worker's file in the discovery folder: written whole (a new file, renamed over the old one), touched at a third
 * of the time to live, removed at the end.
 */
import { randomUUID } from 'node:crypto'
import { rename, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { WorkerCard } from '../../request/index.ts'
import type { Registration } from '../../worker/index.ts'
import { encodeCardFile } from './card-file.ts'

interface FileRegistrationOptions {
  readonly folder: string
  readonly machine: string
  readonly renewMs: number
  /** The entry could not be renewed; it is tried again at the next beat. */
  readonly onRenewFailed: (error: unknown) => void
}

export class FileRegistration implements Registration {
  readonly #options: FileRegistrationOptions
  #card: WorkerCard
  #beat: NodeJS.Timeout | null = null
  #closed = false
  /** Writes, beats and the removal happen one after the other: a late beat must not bring a removed file back. */
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
    if (this.#beat !== null) clearInterval(this.#beat)
    return this.#inTurn(() => rm(this.path, { force: true }))
  }

  #renew(): void {
    this.#inTurn(async () => {
      if (this.#closed) return
      const now = new Date()
      try {
        await utimes(this.path, now, now)
      } catch {
        // Somebody removed it (a watcher that took us for dead while this process was suspended): say it again.
        await this.#write()
      }
    }).catch((error: unknown) => this.#options.onRenewFailed(error))
  }

  async #write(): Promise<void> {
    const { folder, machine } = this.#options
    const temporary = join(folder, `.${this.#card.workerId}.${randomUUID()}.tmp`)
    await writeFile(temporary, encodeCardFile({ card: this.#card, machine }), { mode: 0o600 })
    await rename(temporary, this.path)
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => undefined)
    return mine
  }
}

export function entryPath(folder: string, workerId: string): string {
  return join(folder, `${workerId}.json`)
}
