/**
 * Which worker each session is bound to, in one pool.
 *
 * Session ids are names that clients choose, so each tenant has its own: a client cannot bind, move or close a session
 * of another tenant.
 *
 * Life of a binding: created by the first request of the session that is dispatched, kept while one of its requests
 * runs and then for its idle time; dropped when the session is closed, or when its worker leaves or fails. Bounded:
 * beyond the limit the binding that was idle longest is dropped.
 */
import type { RoutingHints } from '../../request/index.ts'
import type { Pin } from '../decide/pin.ts'
import type { SessionConfig } from '../configuration/router-config.ts'

interface Binding {
  target: Pin
  idleMs: number
  active: number
  idleSinceMs: number
  /** When the other frontends were last told about it. */
  toldAtMs: number
}

/** Held by a running request; only the first call of `end` counts. */
interface SessionLease {
  end(failed: boolean, nowMs: number): void
}

/** Tells other frontends about a session; a null target means that it is no longer bound. */
type TellBinding = (key: string, target: Pin | null, idleMs: number) => void

export class SessionAffinity {
  readonly #config: SessionConfig
  readonly #tell: TellBinding
  /** By tenant and session id (`sessionKeyOf`), in order of last use, oldest first. */
  readonly #bindings = new Map<string, Binding>()

  constructor(config: SessionConfig, tell: TellBinding = () => undefined) {
    this.#config = config
    this.#tell = tell
  }

  /**
   * News from another frontend, which has just used or dropped the binding. A binding with a local running request
   * wins.
   */
  learn(key: string, target: Pin | null, idleMs: number, nowMs: number): void {
    const known = this.#bindings.get(key)
    if (known !== undefined && known.active > 0) return
    if (target === null) {
      this.#bindings.delete(key)
      return
    }
    const told = { target, idleMs, active: 0, idleSinceMs: nowMs, toldAtMs: nowMs }
    this.#touch(key, told)
  }

  /** For a frontend that joined late: reports every valid binding. */
  tellAll(nowMs: number): void {
    for (const [key, binding] of this.#bindings) {
      if (!isOver(binding, nowMs)) this.#tell(key, binding.target, binding.idleMs)
    }
  }

  /** Number of valid bindings; expired ones are removed. */
  count(nowMs: number): number {
    for (const [key, binding] of this.#bindings) {
      if (isOver(binding, nowMs)) this.#bindings.delete(key)
    }
    return this.#bindings.size
  }

  targetOf(hints: RoutingHints, nowMs: number): Pin | null {
    const key = sessionKeyOf(hints)
    if (key === undefined) return null
    const binding = this.#bindings.get(key)
    if (binding === undefined) return null
    if (isOver(binding, nowMs)) {
      this.#bindings.delete(key)
      return null
    }
    return binding.target
  }

  /** The request goes to `target`: binds the session if needed and keeps the binding while the request runs. */
  lease(hints: RoutingHints, target: Pin, nowMs: number): SessionLease | null {
    const { sessionAction } = hints
    const key = sessionKeyOf(hints)
    if (key === undefined) return null
    const seconds = hints.sessionTimeoutSeconds ?? this.#config.ttlSeconds
    const known = this.#bindings.get(key)
    const isWanted =
      this.#config.ttlSeconds > 0 || sessionAction === 'open' || sessionAction === 'bind'
    if (known === undefined && !isWanted) return null
    const binding = known ?? {
      target,
      idleMs: 0,
      active: 0,
      idleSinceMs: nowMs,
      toldAtMs: -Infinity,
    }
    const before = binding.target
    if (sessionAction === 'bind' || this.#config.soft) binding.target = target
    if (known === undefined || hints.sessionTimeoutSeconds !== undefined) {
      binding.idleMs = 1000 * (seconds > 0 ? seconds : OPENED_SECONDS)
    }
    binding.active++
    this.#touch(key, binding)
    const isNews = known === undefined || binding.target !== before
    // Also restarts the idle time in the other frontends.
    if (isNews || nowMs - binding.toldAtMs > binding.idleMs / 4) {
      binding.toldAtMs = nowMs
      this.#tell(key, binding.target, binding.idleMs)
    }
    return this.#leaseOn(key, binding, sessionAction === 'close')
  }

  /** `key`: of `sessionKeyOf`. */
  drop(key: string): void {
    if (this.#bindings.delete(key)) this.#tell(key, null, 0)
  }

  #leaseOn(key: string, binding: Binding, closes: boolean): SessionLease {
    let ended = false
    return {
      end: (failed, nowMs) => {
        if (ended) return
        ended = true
        binding.active--
        binding.idleSinceMs = nowMs
        const isCurrent = this.#bindings.get(key) === binding
        if (isCurrent && (failed || closes)) this.drop(key)
      },
    }
  }

  #touch(key: string, binding: Binding): void {
    this.#bindings.delete(key)
    this.#bindings.set(key, binding)
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

/** Names a session; undefined: the request belongs to none. */
export function sessionKeyOf({ sessionId, tenantId }: RoutingHints): string | undefined {
  if (sessionId === undefined || tenantId === undefined) return sessionId
  return `${tenantId}\u0000${sessionId}`
}

/** Idle time of a session that was opened without one. */
const OPENED_SECONDS = 300
