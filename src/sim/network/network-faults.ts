/**
 * The faults of the simulated network, and their random draws.
 *
 * Owns: names, defaults and limits of the faults, and the draws, in the order of their use, from one seed.
 * Connections are streams like TCP: nothing in them is lost or duplicated alone. A lost message breaks its
 * connection; only events, load reports and retransmitted messages can be duplicated or lost alone.
 */
import { BatonError, seededRandom } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'

export interface NetworkFaults {
  /** One-way delay of every message. */
  readonly delayMs: number
  /** Additional delay up to this, drawn for each turn in which something is sent. */
  readonly jitterMs: number
  /** Share of messages between frontend and worker that are lost, together with their connection. */
  readonly messageLoss: number
  /** Share of cancels, KV releases and announcements that are duplicated. */
  readonly controlDuplicate: number
  /** Additional delay of KV events. */
  readonly eventDelayMs: number
  readonly eventLoss: number
  readonly eventDuplicate: number
  /** Share of KV pulls that break in the middle, and of lost acknowledgements. */
  readonly kvBreak: number
  /** Time until a broken connection is tried again. */
  readonly reconnectMs: number
  /** A connection that is silent for this time counts as dead. */
  readonly silenceMs: number
  /** Time until a dead worker disappears from discovery. */
  readonly leaseMs: number
}

const DEFAULTS: NetworkFaults = Object.freeze({
  delayMs: 0,
  jitterMs: 0,
  messageLoss: 0,
  controlDuplicate: 0,
  eventDelayMs: 1,
  eventLoss: 0,
  eventDuplicate: 0,
  kvBreak: 0,
  reconnectMs: 50,
  silenceMs: 10_000,
  leaseMs: 3_000,
})

const SHARES = [
  'messageLoss',
  'controlDuplicate',
  'eventLoss',
  'eventDuplicate',
  'kvBreak',
] as const

export function completeNetworkFaults(options: Partial<NetworkFaults> = {}): NetworkFaults {
  const faults = { ...DEFAULTS, ...options }
  for (const [name, value] of Object.entries(faults)) {
    if (!(name in DEFAULTS)) refuse(name, 'a known name', value)
    if (typeof value !== 'number' || !(value >= 0)) refuse(name, 'a number ≥ 0', value)
  }
  for (const name of SHARES) if (faults[name] > 1) refuse(name, 'a share from 0 to 1', faults[name])
  return Object.freeze(faults)
}

function refuse(name: string, wanted: string, value: unknown): never {
  throw new BatonError('config.invalid', `faults.${name}: expected ${wanted}, got ${String(value)}`)
}

export class NetworkDice {
  readonly faults: NetworkFaults
  readonly #random: Random
  #isStopped = false

  constructor(faults: NetworkFaults, seed: number) {
    this.faults = faults
    this.#random = seededRandom(seed ^ 0x6e657477)
  }

  /** No draw is made for a share of 0, so that a run without faults does not depend on them. */
  happens(share: number): boolean {
    return share > 0 && !this.#isStopped && this.#random.next() < share
  }

  /** From now on nothing is lost or duplicated. */
  stop(): void {
    this.#isStopped = true
  }

  delayMs(): number {
    const { delayMs, jitterMs } = this.faults
    return jitterMs === 0 ? delayMs : delayMs + jitterMs * this.#random.next()
  }

  get isInstant(): boolean {
    return this.faults.delayMs === 0 && this.faults.jitterMs === 0
  }
}
