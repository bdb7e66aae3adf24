/**
 * Decides which batches run in this process. Each batch is leased, so that of several frontends with the same
 * folder only one runs it, and another continues when that one dies.
 */
import type { Clock, Timer } from '../../base/index.ts'
import { hasEnded } from './batch-record.ts'
import type { BatchRecord } from './batch-record.ts'
import { BatchRun } from './batch-run.ts'
import type { BatchRunDeps } from './batch-run.ts'

const LOOK_MS = 5_000
const SWEEP_MS = 10 * 60_000
const RUNS_MAX = 4
/** A batch whose files cannot be written is not tried again for this time. */
const BROKEN_MS = 30_000

interface Running {
  readonly run: BatchRun
  readonly ended: Promise<void>
}

export class BatchRunner {
  readonly #deps: BatchRunDeps
  readonly #clock: Clock
  readonly #onFault: (error: unknown) => void
  readonly #running = new Map<string, Running>()
  readonly #brokenUntilMs = new Map<string, number>()
  #timer: Timer | null = null
  #isLooking = false
  #isPoked = false
  #isStopped = false
  #sweptMs = -Infinity

  constructor(deps: BatchRunDeps, onFault: (error: unknown) => void) {
    this.#deps = deps
    this.#clock = deps.clock
    this.#onFault = onFault
    this.#timer = this.#clock.after(0, () => this.poke())
  }

  /** The current record, if the batch runs here. */
  running(id: string): BatchRecord | undefined {
    return this.#running.get(id)?.run.batch
  }

  /** The same once it is stored; the stored one if the folder cannot be written. */
  async shown(batch: BatchRecord): Promise<BatchRecord> {
    const run = this.#running.get(batch.id)?.run
    try {
      return (await run?.shown()) ?? batch
    } catch (fault) {
      this.#onFault(fault)
      return batch
    }
  }

  get size(): number {
    return this.#running.size
  }

  cancel(id: string): void {
    this.#running.get(id)?.run.cancel()
  }

  /** Checks for batches to run. */
  poke(): void {
    if (this.#isStopped) return
    this.#isPoked = true
    if (this.#isLooking) return
    this.#isLooking = true
    this.#timer?.cancel()
    this.#lookOn().then(
      () => this.#lookedOn(),
      (error: unknown) => {
        this.#onFault(error)
        this.#lookedOn()
      },
    )
  }

  /** Batches that run here are left for another process. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    const running = [...this.#running.values()]
    for (const { run } of running) run.stop()
    await Promise.all(running.map(async ({ ended }) => await ended))
  }

  #lookedOn(): void {
    this.#isLooking = false
    if (!this.#isStopped) this.#timer = this.#clock.after(LOOK_MS, () => this.poke())
  }

  async #lookOn(): Promise<void> {
    while (this.#isPoked && !this.#isStopped) {
      this.#isPoked = false
      await this.#look()
    }
    await this.#sweep()
  }

  async #look(): Promise<void> {
    const { batches, options } = this.#deps
    for (const [id, { run }] of this.#running) {
      const isHeld = await options.folder.renewLease(id)
      // One that has ended meanwhile has released its lease.
      if (!this.#running.has(id)) continue
      if (!isHeld) run.giveUp()
      else if (await batches.isToBeCancelled(id)) run.cancel()
    }
    const open = await batches.unfinished()
    while (this.#running.size < RUNS_MAX) {
      const next = this.#next(open)
      if (next === undefined || this.#isStopped) return
      open.splice(open.indexOf(next), 1)
      if (await options.folder.lease(next.id)) await this.#begin(next.id)
    }
  }

  /** The oldest batch of the tenant with the fewest running batches. */
  #next(open: readonly BatchRecord[]): BatchRecord | undefined {
    const nowMs = this.#clock.nowMs()
    const count = (tenant: string): number =>
      [...this.#running.values()].filter(({ run }) => run.batch.tenant === tenant).length
    const free = open.filter(
      ({ id }) => !this.#running.has(id) && (this.#brokenUntilMs.get(id) ?? 0) <= nowMs,
    )
    const fewest = Math.min(...free.map(({ tenant }) => count(tenant)))
    return free.find(({ tenant }) => count(tenant) === fewest)
  }

  /** The record is read again under the lease, because its previous holder may have finished the batch. */
  async #begin(id: string): Promise<void> {
    const batch = await this.#deps.batches.read(id)
    if (batch === null || hasEnded(batch)) return await this.#deps.options.folder.release(id)
    const run = new BatchRun(this.#deps, batch)
    const ended = run.run().then(
      () => this.#ended(id),
      async (error: unknown) => {
        this.#onFault(error)
        this.#brokenUntilMs.set(id, this.#clock.nowMs() + BROKEN_MS)
        await this.#ended(id)
      },
    )
    this.#running.set(id, { run, ended: ended.catch(this.#onFault) })
  }

  async #ended(id: string): Promise<void> {
    this.#running.delete(id)
    await this.#deps.options.folder.release(id)
    this.poke()
  }

  async #sweep(): Promise<void> {
    const nowMs = this.#clock.nowMs()
    if (this.#isStopped || nowMs - this.#sweptMs < SWEEP_MS) return
    this.#sweptMs = nowMs
    const { files, batches, options } = this.#deps
    const open = await batches.unfinished()
    const inUse = open.flatMap(({ outputFileId, errorFileId }) => [outputFileId, errorFileId])
    await files.forgetExpired(new Set(inUse))
    await batches.forget(options.keepSeconds)
    for (const [id, untilMs] of this.#brokenUntilMs) {
      if (untilMs <= nowMs) this.#brokenUntilMs.delete(id)
    }
  }
}
