/**
 * The queue of a pool: policy classes with their limits, and deficit round robin between them.
 *
 * Each class in turn may send as many uncached prompt tokens as its quantum allows; the rest is carried over while
 * the class has queued requests. Under overload the queue is so short that one quantum may exceed it; then a round is no longer
 * than the queue, as otherwise a class would lose its turn whenever its few requests are sent. Every limit is a typed
 * refusal that is checked before anything is added.
 */
import { BatonError } from '../../base/index.ts'
import { ClassQueue } from './class-queue.ts'
import type { QueueEntry } from './class-queue.ts'
import type { RankSet } from './rank-set.ts'
import { classOf } from '../configuration/policy-class.ts'
import type { PolicyClass } from '../configuration/policy-class.ts'

export class PolicyQueue {
  readonly #classes: readonly ClassQueue[]
  readonly #policyClasses: readonly PolicyClass[]
  readonly #byName: ReadonlyMap<string, ClassQueue>
  readonly #maxRequests: number
  #cursor = 0
  #carried: ClassQueue | null = null

  constructor(classes: readonly PolicyClass[], maxRequests: number) {
    this.#policyClasses = classes
    this.#classes = classes.map((policyClass) => new ClassQueue(policyClass))
    this.#byName = new Map(this.#classes.map((queue) => [queue.policyClass.name, queue]))
    this.#maxRequests = maxRequests
  }

  /** See `classOf` in `configuration/policy-class.ts`. */
  classOf(name: string | undefined, uncachedTokens: () => number): ClassQueue {
    const { name: chosen } = classOf(this.#policyClasses, name, uncachedTokens) as PolicyClass
    return this.#byName.get(chosen) as ClassQueue
  }

  get requests(): number {
    return this.#classes.reduce((sum, queue) => sum + queue.requests, 0)
  }

  get promptTokens(): number {
    return this.#classes.reduce((sum, queue) => sum + queue.promptTokens, 0)
  }

  /** Adds the entry, or returns the limit that is reached. */
  add(
    queue: ClassQueue,
    entry: QueueEntry,
    scope: { workers: number; retryAfterMs: number },
  ): BatonError | null {
    const refusal = this.#refusal(queue, scope)
    if (refusal === null) queue.add(entry)
    return refusal
  }

  remove(queue: ClassQueue, entry: QueueEntry): boolean {
    return queue.remove(entry, false)
  }

  /** The sets of ranks that requests wait for, each once. */
  get sets(): readonly RankSet[] {
    const [first, ...others] = this.#classes
    if (others.length === 0) return first?.sets ?? []
    const all = this.#classes.flatMap(({ sets }) => sets)
    return [...new Map(all.map((set) => [set.key, set])).values()]
  }

  requestsOf(ranks: Pick<RankSet, 'key'>): number {
    return this.#classes.reduce((sum, queue) => sum + queue.requestsOf(ranks), 0)
  }

  /** The fleet has changed. */
  regroup(ranksOf: (entry: QueueEntry) => RankSet): void {
    for (const queue of this.#classes) queue.regroup(ranksOf)
  }

  /**
   * How many requests for the same ranks would go before it: those of its class, and of each other class as many as that
   * may send until then. So a class with a thousand requests does not push back another one.
   */
  countAhead(queue: ClassQueue, entry: Parameters<ClassQueue['countAhead']>[0]): number {
    const own = queue.countAhead(entry)
    if (this.#classes.length === 1) return own
    const rounds = ((own + 1) * queue.meanCost()) / queue.policyClass.quantum
    return this.#classes.reduce((sum, other) => {
      if (other === queue) return sum
      const sooner = Math.floor((rounds * other.policyClass.quantum) / other.meanCost())
      return sum + Math.min(other.requestsOf(entry.ranks), sooner)
    }, own)
  }

  /** The last entry of one class or of all, and of all that wait for these ranks: it is displaced when the queue is full. */
  last(only: ClassQueue | null = null, ranks: RankSet | null = null): QueueEntry | null {
    let worst: Last | null = null
    for (const queue of only === null ? this.#classes : [only]) {
      const entry = queue.last(ranks)
      if (entry === null) continue
      const last = { entry, rounds: queue.roundsBefore(entry) }
      if (worst === null || isBelow(last, worst)) worst = last
    }
    return worst?.entry ?? null
  }

  /** If the limit of one class is reached, an entry of that class is displaced. */
  isClassFull(queue: ClassQueue, workers: number): boolean {
    return classBounds(queue, workers).length > 0
  }

  /** Removes and returns the next entry that can be sent, or null. `isShort`: the queue is kept short because of an overload. */
  pop(isShort = false): QueueEntry | null {
    const scale = isShort ? this.#roundScale() : 1
    const carried = this.#carried
    if (carried !== null && carried.requests > 0) {
      const head = carried.head()
      if (head !== null && head.cost <= carried.deficit) return this.#serve(carried, head)
    }
    const turn = this.#turn()
    for (const { queue, head } of turn) {
      if (head.cost <= queue.deficit) return this.#serve(queue, head)
      queue.deficit += scale * queue.policyClass.quantum
      if (head.cost <= queue.deficit) return this.#serve(queue, head)
    }
    if (turn.length === 0) return null
    // No class has enough deficit: add as many whole rounds at once as the first one needs.
    const needs = turn.map(({ queue, head }) =>
      Math.ceil((head.cost - queue.deficit) / (scale * queue.policyClass.quantum)),
    )
    const rounds = Math.min(...needs)
    for (const { queue } of turn) queue.deficit += rounds * scale * queue.policyClass.quantum
    // Not by its deficit: that may lack the last digit.
    const next = turn[needs.indexOf(rounds)]
    return next === undefined ? null : this.#serve(next.queue, next.head)
  }

  entries(): QueueEntry[] {
    return this.#classes.flatMap((queue) => queue.entries())
  }

  #roundScale(): number {
    let [queued, quanta] = [0, 0]
    for (const { requests, cost, policyClass } of this.#classes) {
      if (requests === 0) continue
      queued += cost
      quanta += policyClass.quantum
    }
    return Math.min(queued / Math.max(quanta, 1), 1)
  }

  /** Classes with an entry that can be sent, starting at the cursor. */
  #turn(): { queue: ClassQueue; head: QueueEntry }[] {
    const turn: { queue: ClassQueue; head: QueueEntry }[] = []
    for (let i = 0; i < this.#classes.length; i++) {
      const queue = this.#classes[(this.#cursor + i) % this.#classes.length] as ClassQueue
      if (queue.requests === 0) continue
      const head = queue.head()
      if (head !== null) turn.push({ queue, head })
    }
    return turn
  }

  #serve(queue: ClassQueue, head: QueueEntry): QueueEntry {
    this.#cursor = (this.#classes.indexOf(queue) + 1) % this.#classes.length
    queue.deficit -= head.cost
    queue.remove(head, true)
    this.#carried = queue.deficit > 0 && queue.requests > 0 ? queue : null
    return head
  }

  #refusal(queue: ClassQueue, scope: { workers: number; retryAfterMs: number }): BatonError | null {
    const { workers, retryAfterMs } = scope
    const [bound] = classBounds(queue, workers)
    if (bound !== undefined) {
      const { kind, limit, current } = bound
      const { name } = queue.policyClass
      return new BatonError(
        'capacity.pool_exhausted',
        `the queue of class '${name}' is full: ${current} of ${limit} ${kind}`,
        { data: { stage: 'queue', policyClass: name, kind, limit, current, retryAfterMs } },
      )
    }
    const current = this.requests
    if (current < this.#maxRequests) return null
    return new BatonError(
      'capacity.exhausted',
      `the queue is full: ${current} of ${this.#maxRequests} requests`,
      { data: { stage: 'queue', limit: this.#maxRequests, current, retryAfterMs } },
    )
  }
}

/** The limits of the class that are reached. */
function classBounds(queue: ClassQueue, workers: number) {
  const { policyClass } = queue
  const bounds = [
    ['requests', policyClass.requestLimitPerWorker, queue.requests],
    ['prompt tokens', policyClass.promptTokenLimitPerWorker, queue.promptTokens],
    ['cached tokens', policyClass.cachedTokenLimitPerWorker, queue.cachedTokens],
  ] as const
  return bounds.flatMap(([kind, perWorker, current]) => {
    const limit = perWorker === null ? Infinity : perWorker * workers
    return current < limit ? [] : [{ kind, limit, current }]
  })
}

/** The last entry of a class, and how many rounds the class needs before it. */
interface Last {
  readonly entry: QueueEntry
  readonly rounds: number
}

function isBelow(a: Last, b: Last): boolean {
  if (a.entry.strictPriority !== b.entry.strictPriority) {
    return a.entry.strictPriority < b.entry.strictPriority
  }
  return a.rounds === b.rounds ? a.entry.arrivedMs > b.entry.arrivedMs : a.rounds > b.rounds
}
