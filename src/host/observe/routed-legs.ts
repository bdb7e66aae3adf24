/**
 * Counts the legs of each worker, with the worker's id as a label.
 *
 * Every started process is a worker with a new id, so the series of workers that have left are dropped.
 */
import { Counter } from 'prom-client'
import type { Registry } from 'prom-client'
import { Departures } from './departures.ts'
import { LabelledCounts } from './labelled-counts.ts'

type LegLabels = Readonly<Record<'model' | 'phase' | 'worker_id', string>>

export class RoutedLegs {
  readonly #counts = new LabelledCounts(['model', 'phase', 'worker_id'])
  /** Model and phase of a worker's counts; there are few, so they are found by comparison. */
  readonly #ofWorker = new Map<string, LegLabels[]>()
  readonly #departures = new Departures()

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
    let seen = this.#ofWorker.get(workerId)
    if (seen === undefined) {
      seen = []
      this.#ofWorker.set(workerId, seen)
    }
    if (!seen.some((each) => each.phase === phase && each.model === model)) seen.push(labels)
    this.#counts.add(1, model, phase, workerId)
  }

  /** Compares with the current workers; called at each scrape. */
  keep(workerIds: ReadonlySet<string>): void {
    for (const workerId of this.#departures.among(this.#ofWorker.keys(), workerIds)) {
      for (const { model, phase } of this.#ofWorker.get(workerId) ?? []) {
        this.#counts.remove(model, phase, workerId)
      }
      this.#ofWorker.delete(workerId)
    }
  }
}
