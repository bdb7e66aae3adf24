/**
 * The configuration of a simulated fleet: workers, requests, router, faults, goals.
 */
import type { SchedulerOptions } from '../../simengine/index.ts'
import type { DisaggregationMode, EnginePace, LatencyGoals } from '../../request/index.ts'
import type { RoleControllerOptions, RouterOptions } from '../../router/index.ts'
import type { FaultEvent } from '../faults/fault-schedule.ts'
import type { NetworkFaults } from '../network/network-faults.ts'
import type { FleetGoal } from '../report/fleet-report.ts'
import type { TraceRequest } from '../trace/trace-request.ts'

export interface FleetGroup {
  readonly mode: DisaggregationMode
  readonly count: number
  readonly engine?: SchedulerOptions
  /** Milliseconds until it accepts requests. Default 0. */
  readonly startupMs?: number
  /** The pace that its workers announce. Absent: none. */
  readonly pace?: EnginePace
  /**
   * Its workers say neither how many requests they run at once nor how busy they are, like most engines that are not
   * Baton's. Default false.
   */
  readonly hidesLoad?: boolean
  /** Its workers may change between prefill and decode; see `FleetConfig.roles`. Default false. */
  readonly changesRole?: boolean
  /** For reports. */
  readonly name?: string
  /** Cost of one worker. Used by `baton plan` only; a run does not depend on it. */
  readonly cost?: number
}

export interface RequestOverhead {
  readonly requestMs: number
  readonly msPerToken: number
}

export interface FleetConfig {
  readonly workers: readonly FleetGroup[]
  readonly trace: readonly TraceRequest[]
  readonly router?: RouterOptions
  /** Frontends that share the workers; the requests are distributed in turn. Default 1. */
  readonly frontends?: number
  /**
   * As in a real frontend, a prompt that does not fit is refused, and an answer ends at the context length. Default:
   * no limit.
   */
  readonly contextLength?: number
  /** Default: TTFT 5000 ms, TPOT 50 ms. */
  readonly goal?: FleetGoal
  /** Latency goals of each request, which the router considers. Default: none. */
  readonly goalsOf?: (request: TraceRequest, index: number) => LatencyGoals | undefined
  /** Seed of the random choices of router, network and clients. Default 0. */
  readonly seed?: number
  /** Delay of KV events to the router in ms; null: the engines send none. Default 1. */
  readonly eventDelayMs?: number | null
  /** Closed loop: number of concurrent requests. Absent: requests are sent at the times of the trace. */
  readonly concurrency?: number
  /** Workers that die: the index in the order of `workers`, and the virtual time. */
  readonly deaths?: readonly { readonly worker: number; readonly atMs: number }[]
  readonly faults?: readonly FaultEvent[]
  /** Delay in ms of messages between frontends. Default 2; null: they send none. */
  readonly peerDelayMs?: number | null
  /** Workers of groups with `changesRole` change their role as the controller decides. Absent: none does. */
  readonly roles?: Partial<RoleControllerOptions>
  readonly network?: Partial<NetworkFaults>
  /** Further attempts of a request whose worker is lost. Default 3, as in the server. */
  readonly migrationLimit?: number
  /** Time of a request outside of workers: HTTP, parsing, tokenizing, and its tokens on the way back. Default 0. */
  readonly overhead?: RequestOverhead
  /** Share of clients that disconnect before the end. Default 0. */
  readonly leaving?: number
  /** KV is transferred between workers by offers and pulls, instead of being only a delay. Default false. */
  readonly handsKvOver?: boolean
  /** Check every token, and at the end what was lost, duplicated or left behind. Default false. */
  readonly check?: boolean
  /** Interval of telemetry samples in virtual ms; 0: none. Default 0. */
  readonly sampleMs?: number
  /**
   * Every engine step has a timer. Slower, but needed if replies may be cut off in the middle. Default: on in that
   * case.
   */
  readonly stepwise?: boolean
  readonly onProgress?: (ended: number, total: number, nowMs: number) => void
  /**
   * Resolves when no microtask is left; see `VirtualClock`. In Node: `() => new Promise(setImmediate)`, or that of
   * room `os`.
   */
  readonly settle?: () => Promise<void>
}
