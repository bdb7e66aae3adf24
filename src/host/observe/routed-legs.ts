/**
 * Counts the legs of each worker, with the worker's id as a label.
 *
 * Every started process is a worker with a new id, so series of workers that have left must not accumulate. A worker
 * that was absent in two scrapes in a row is dropped; the scrape in between shows its last count once more.
 */
import { Counter } from 'prom-client'
import type { Registry } from 'prom-client'
import { LabelledCounts } from './labelled-counts.ts'

type LegLabels = Readonly<Record<'model' | 'phase' | 'worker_id', string>>

interface WorkerSeries {
  /** Model and phase of its counts; there are few, so they are found by comparison. */
  readonly seen: LegLabels[]
  isGone: boolean
}

export class RoutedLegs {
  readonly #counts = new LabelledCounts(['model', 'phase', 'worker_id'])
  readonly #ofWorker = new Map<string, WorkerSeries>()

  constructor(registry: Registry) {
    const counts = this.#counts
    new Counter({
      name: 'baton_frontend_routed_legs_total',
      help: 'Legs sent to a worker',
      labelNames: ['model', 'phase', 'worker_id'],
      registers: [registry],
      collect() {
        counts.writeTo(this)
      },
    })
  }

  count(labels: LegLabels): void {
    const { model, phase, worker_id: workerId } = labels
    let series = this.#ofWorker.get(workerId)
    if (series === undefined) {
      series = { seen: [], isGone: false }
      this.#ofWorker.set(workerId, series)
    }
    if (!series.seen.some((each) => each.phase === phase && each.model === model)) {
      series.seen.push(labels)
    }
    this.#counts.add(1, model, phase, workerId)
  }

  /** Compares with the current workers; called at each scrape. */
  keep(workerIds: ReadonlySet<string>): void {
    for (const [workerId, series] of this.#ofWorker) {
      const wasGone = series.isGone
      series.isGone = !workerIds.has(workerId)
      if (!wasGone || !series.isGone) continue
      for (const { model, phase } of series.seen) {
        this.#counts.remove(model, phase, workerId)
      }
      this.#ofWorker.delete(workerId)
    }
  }
}
