/**
 * Decides whether a frontend that has just started knows the fleet: its workers, and what each runs and has
 * cached. Until then it routes by incomplete data, and `/ready` tells a load balancer to wait.
 *
 * looking (discovery) ──▶ found: each worker has sent its state, is unreachable, or has left ──▶ complete,
 * permanently
 *
 * Complete from the start when there is no discovery: an embedding program, direct calls. Bounded by the time
 * limit for connecting.
 */
import type { WorkerId } from '../../base/index.ts'

export class FirstPicture {
  readonly #settled = new Set<WorkerId>()
  readonly #missing = new Set<WorkerId>()
  #state: 'looking' | 'found' | 'complete' = 'complete'
  #found = 0
  #whenComplete: (() => void)[] = []

  /** Discovery was asked for the workers. */
  look(): void {
    this.#state = 'looking'
  }

  /** The workers to which requests could be sent, as discovery first reported them. */
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

  /** The worker has sent its state, or will not. */
  settled(workerId: WorkerId): void {
    if (this.#state === 'looking') this.#settled.add(workerId)
    if (this.#state !== 'found') return
    this.#missing.delete(workerId)
    this.#completeIfAll()
  }

  /** The worker gets no requests. It may get some, and is awaited then, when all workers are known. */
  refused(workerId: WorkerId): void {
    if (this.#state === 'looking') this.#settled.delete(workerId)
    else this.settled(workerId)
  }

  /** Discovery has not listed all workers yet. */
  get isLooking(): boolean {
    return this.#state === 'looking'
  }

  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  /** What is missing, for the message of `/ready`. */
  get reason(): string {
    if (this.#state === 'looking') return 'joining: waiting for discovery to list the workers'
    const known = this.#found - this.#missing.size
    return `joining: ${known} of ${this.#found} workers have reported what they run and have cached`
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
