/**
 * Stored batches: one record each, and a mark for cancellation, which may be set by another process than the
 * one that runs the batch.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { BatchFolder } from './batch-folder.ts'
import { hasEnded } from './batch-record.ts'
import type { BatchRecord } from './batch-record.ts'
import { jsonOf, newestFirst } from './stored-files.ts'

const BATCH_ID = /^batch_[0-9a-f]{32}$/
/** Also one that a process was about to remove when it died. */
const LEASE = /^(batch_[0-9a-f]{32})\.lease/

export class StoredBatches {
  readonly #folder: BatchFolder
  readonly #clock: Clock
  /** Ids of ended batches, whose records do not change any more. */
  readonly #ended = new Set<string>()

  constructor(folder: BatchFolder, clock: Clock) {
    this.#folder = folder
    this.#clock = clock
  }

  async write(batch: BatchRecord): Promise<void> {
    await this.#folder.write(recordName(batch.id), JSON.stringify(batch))
  }

  /** Throws `request.not_found`. */
  async batch(id: string, tenant: string): Promise<BatchRecord> {
    const found = BATCH_ID.test(id) ? await this.read(id) : null
    if (found === null || found.tenant !== tenant) {
      throw new BatonError('request.not_found', `there is no batch \`${id.slice(0, 100)}\``)
    }
    return found
  }

  /** Newest first. */
  async list(tenant: string): Promise<BatchRecord[]> {
    const batches = await Promise.all((await this.#ids()).map(async (id) => await this.read(id)))
    return batches
      .filter((batch) => batch !== null)
      .filter((batch) => batch.tenant === tenant)
      .toSorted(newestFirst)
  }

  /** Oldest first. */
  async unfinished(): Promise<BatchRecord[]> {
    const open: BatchRecord[] = []
    for (const id of await this.#ids()) {
      if (this.#ended.has(id)) continue
      const batch = await this.read(id)
      if (batch === null) continue
      if (hasEnded(batch)) this.#ended.add(id)
      else open.push(batch)
    }
    return open.toSorted((left, right) => newestFirst(right, left))
  }

  /** Null: the batch does not exist. */
  async read(id: string): Promise<BatchRecord | null> {
    const batch = jsonOf(await this.#folder.read(recordName(id))) as unknown as BatchRecord | null
    if (batch === null || hasEnded(batch) || !(await this.isToBeCancelled(id))) return batch
    const cancelling = batch.reached.cancelling ?? Math.floor(this.#clock.epochMs() / 1000)
    return { ...batch, state: 'cancelling', reached: { ...batch.reached, cancelling } }
  }

  async markCancelled(id: string): Promise<void> {
    await this.#folder.write(cancelName(id), '')
  }

  async isToBeCancelled(id: string): Promise<boolean> {
    return (await this.#folder.bytesOf(cancelName(id))) !== undefined
  }

  /** Deletes batches that ended more than `keepSeconds` ago, and leases that processes left when they died. */
  async forget(keepSeconds: number): Promise<void> {
    await this.#forgetLeases()
    const beforeSeconds = this.#clock.epochMs() / 1000 - keepSeconds
    for (const id of await this.#ids()) {
      const batch = await this.read(id)
      if (batch === null || !hasEnded(batch) || batch.createdSeconds > beforeSeconds) continue
      this.#ended.delete(id)
      await this.#folder.remove(recordName(id))
      await this.#folder.remove(cancelName(id))
    }
  }

  /** Nobody needs the lease of a batch that has ended. */
  async #forgetLeases(): Promise<void> {
    for (const name of await this.#folder.names()) {
      const [, id] = LEASE.exec(name) ?? []
      if (id === undefined) continue
      const batch = await this.read(id)
      if (batch === null || hasEnded(batch)) await this.#folder.remove(name)
    }
  }

  async #ids(): Promise<string[]> {
    const names = await this.#folder.names()
    return names.flatMap((name) => (/^(batch_[0-9a-f]{32})\.json$/.exec(name) ?? []).slice(1))
  }
}

const recordName = (id: string): string => `${id}.json`
const cancelName = (id: string): string => `${id}.cancel`
