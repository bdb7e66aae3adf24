/**
 * The page's data: the current fleet, its last minutes, the last requests. Filled from `/debug/events`.
 */
import type { FleetView, LoggedRequest } from '../../frontend/index.ts'
import { ask, eventsOf, KeyWanted, said } from './server.ts'

export type Link = 'connecting' | 'live' | 'lost' | 'key wanted'

/** Rates between two fleet events. */
export interface Rates {
  readonly requestsPerSecond: number
  readonly tokensPerSecond: number
}

const REQUESTS_MAX = 300
const RETRY_MS = [500, 1000, 2000, 5000]

export class Store {
  link: Link = 'connecting'
  problem = ''
  fleet: FleetView | null = null
  rates: Rates = { requestsPerSecond: 0, tokensPerSecond: 0 }
  /** By id, oldest first. */
  readonly requests = new Map<string, LoggedRequest>()
  readonly #listeners = new Set<(changed: readonly LoggedRequest[]) => void>()
  #failures = 0

  /** Called after every change with the changed requests; returns a function that unsubscribes. */
  subscribe(listener: (changed: readonly LoggedRequest[]) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reads events for as long as the page is open. */
  async run(): Promise<never> {
    for (;;) {
      try {
        const response = await ask('/debug/events')
        if (!response.ok) throw new Error(await said(response))
        for await (const { event, data } of eventsOf(response)) this.#take(event, data)
        this.#lost('the connection was closed', 'lost')
      } catch (error) {
        this.#lost(
          error instanceof Error ? error.message : String(error),
          error instanceof KeyWanted ? 'key wanted' : 'lost',
        )
      }
      const pause = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)] ?? 5000
      await new Promise((resolve) => {
        setTimeout(resolve, pause)
      })
    }
  }

  #take(event: string, data: string): void {
    this.link = 'live'
    this.problem = ''
    this.#failures = 0
    if (event === 'fleet') this.#takeFleet(JSON.parse(data) as FleetView)
    else if (event === 'requests') this.#takeRequests(JSON.parse(data) as LoggedRequest[])
  }

  #takeFleet(fleet: FleetView): void {
    const before = this.fleet
    // When the number of frontends changes, the sums change too, so no rate can be computed.
    const isComparable = fleet.frontends === before?.frontends
    if (before !== null && isComparable && fleet.epochMs > before.epochMs) {
      const seconds = (fleet.epochMs - before.epochMs) / 1000
      const requests = Math.max(0, fleet.sums.received - before.sums.received)
      const tokens = Math.max(0, fleet.sums.completionTokens - before.sums.completionTokens)
      this.rates = {
        requestsPerSecond: smoothed(this.rates.requestsPerSecond, requests / seconds),
        tokensPerSecond: smoothed(this.rates.tokensPerSecond, tokens / seconds),
      }
    }
    this.fleet = fleet
    this.#tell([])
  }

  #takeRequests(changed: readonly LoggedRequest[]): void {
    for (const request of changed) this.requests.set(request.requestId, request)
    for (const requestId of this.requests.keys()) {
      if (this.requests.size <= REQUESTS_MAX) break
      this.requests.delete(requestId)
    }
    this.#tell(changed)
  }

  #lost(problem: string, link: Link): void {
    this.link = link
    this.problem = problem
    this.#tell([])
  }

  #tell(changed: readonly LoggedRequest[]): void {
    for (const listener of this.#listeners) listener(changed)
  }
}

/** A rate over one second fluctuates; this one follows it in about three seconds. */
function smoothed(before: number, now: number): number {
  const next = before + 0.4 * (now - before)
  return next < 0.05 ? 0 : next
}
