/**
 * Which worker a session is bound to, in one pool.
 *
 * Life of a binding: made by the first request of the session that is dispatched, kept while one of its requests runs,
 * then for its idle time; dropped when the session is closed, or when its worker is gone or fails it. Bounded: beyond
 * the limit the binding that was idle longest goes.
 */
import type { RoutingHints } from '../request/index.ts'
import type { Pin } from './pin.ts'
import type { SessionConfig } from './router-config.ts'

interface Binding {
  target: Pin
  idleMs: number
  active: number
  idleSinceMs: number
}

/** Held by a running request; `end` exactly once counts. */
interface SessionLease {
  end(failed: boolean, nowMs: number): void
}

export class SessionAffinity {
  readonly #config: SessionConfig
  /** In order of last use. */
  readonly #bindings = new Map<string, Binding>()

  constructor(config: SessionConfig) {
    this.#config = config
  }

  /** How many hold now; those whose idle time is over are forgotten. */
  count(nowMs: number): number {
    for (const [sessionId, binding] of this.#bindings) {
      if (isOver(binding, nowMs)) this.#bindings.delete(sessionId)
    }
    return this.#bindings.size
  }

  targetOf(hints: RoutingHints, nowMs: number): Pin | null {
    const { sessionId } = hints
    if (sessionId === undefined) return null
    const binding = this.#bindings.get(sessionId)
    if (binding === undefined) return null
    if (isOver(binding, nowMs)) {
      this.#bindings.delete(sessionId)
      return null
    }
    return binding.target
  }

  /** The request goes to `target`: binds the session if it is to be bound, and keeps the binding while it runs. */
  lease(hints: RoutingHints, target: Pin, nowMs: number): SessionLease | null {
    const { sessionId, sessionAction } = hints
    if (sessionId === undefined) return null
    const seconds = hints.sessionTimeoutSeconds ?? this.#config.ttlSeconds
    const known = this.#bindings.get(sessionId)
    const isWanted =
      this.#config.ttlSeconds > 0 || sessionAction === 'open' || sessionAction === 'bind'
    if (known === undefined && !isWanted) return null
    const binding = known ?? { target, idleMs: 0, active: 0, idleSinceMs: nowMs }
    if (sessionAction === 'bind' || this.#config.soft) binding.target = target
    if (known === undefined || hints.sessionTimeoutSeconds !== undefined) {
      binding.idleMs = 1000 * (seconds > 0 ? seconds : OPENED_SECONDS)
    }
    binding.active++
    this.#touch(sessionId, binding)
    return this.#leaseOn(sessionId, binding, sessionAction === 'close')
  }

  drop(sessionId: string): void {
    this.#bindings.delete(sessionId)
  }

  #leaseOn(sessionId: string, binding: Binding, closes: boolean): SessionLease {
    let ended = false
    return {
      end: (failed, nowMs) => {
        if (ended) return
        ended = true
        binding.active--
        binding.idleSinceMs = nowMs
        const isCurrent = this.#bindings.get(sessionId) === binding
        if (isCurrent && (failed || closes)) this.#bindings.delete(sessionId)
      },
    }
  }

  #touch(sessionId: string, binding: Binding): void {
    this.#bindings.delete(sessionId)
    this.#bindings.set(sessionId, binding)
    if (this.#bindings.size <= this.#config.maxSessions) return
    for (const [oldest, { active }] of this.#bindings) {
      if (active > 0) continue
      this.#bindings.delete(oldest)
      return
    }
  }
}

function isOver({ active, idleSinceMs, idleMs }: Binding, nowMs: number): boolean {
  return active === 0 && nowMs - idleSinceMs >= idleMs
}

/** Idle time of a session that was opened without saying one. */
const OPENED_SECONDS = 300
