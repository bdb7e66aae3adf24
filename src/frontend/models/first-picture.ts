/**
 * Whether a frontend that has just started knows the fleet that it found: which workers there are, what each runs and holds.
 * Until then it decides by a part of the fleet, and `/ready` keeps requests of a balancer away from it.
 *
 *   looking (discovery) ──▶ found: each worker has told all, cannot be reached, or has left ──▶ complete, for good
 *
 * Complete from the beginning where nobody looks: an embedding program, plain calls. Bounded by the time that connecting may take.
 */
import type { WorkerId } from '../../base/index.ts'

export class FirstPicture {
  readonly #settled = new Set<WorkerId>()
  readonly #missing = new Set<WorkerId>()
  #state: 'looking' | 'found' | 'complete' = 'complete'
  #found = 0
  #whenComplete: (() => void)[] = []

  /** Discovery is asked for the fleet. */
  look(): void {
    this.#state = 'looking'
  }

  /** All workers that requests could go to, as discovery has told first. */
  found(workerIds: Iterable<WorkerId>): void {
    if (this.#state !== 'looking') return
    this.#state = 'found'
    for (const workerId of workerIds) {
      this.#found += 1
      if (!this.#settled.has(workerId)) this.#missing.add(workerId)
    }
    this.#settled.clear()
    this.#completeIfAll()
  }

  /** The worker has told everything, or there is nothing to wait for. */
  settled(workerId: WorkerId): void {
    if (this.#state === 'looking') this.#settled.add(workerId)
    if (this.#state !== 'found') return
    this.#missing.delete(workerId)
    this.#completeIfAll()
  }

  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  /** What is missing, for whoever asks why this frontend is not ready. */
  get reason(): string {
    if (this.#state === 'looking') return 'joining: the fleet is being looked for'
    const known = this.#found - this.#missing.size
    return `joining: ${known} of ${this.#found} workers have told what they run and hold`
  }

  async completed(): Promise<void> {
    if (this.isComplete) return
    await new Promise<void>((resolve) => this.#whenComplete.push(resolve))
  }

  #completeIfAll(): void {
    if (this.#missing.size > 0) return
    this.#state = 'complete'
    for (const resolve of this.#whenComplete) resolve()
    this.#whenComplete = []
  }
}
