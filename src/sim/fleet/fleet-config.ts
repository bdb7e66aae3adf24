/**
 * What a run of a fleet is made of: workers, requests, router, faults, goals.
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
  /** Before it takes requests. Default 0. */
  readonly startupMs?: number
  /** What its workers say of their pace. Absent: nothing. */
  readonly pace?: EnginePace
  /** Its workers may become prefill or decode workers; see `FleetConfig.roles`. Default false. */
  readonly changesRole?: boolean
  /** For reports. */
  readonly name?: string
}

export interface RequestOverhead {
  readonly requestMs: number
  readonly msPerToken: number
}

export interface FleetConfig {
  readonly workers: readonly FleetGroup[]
  readonly trace: readonly TraceRequest[]
  readonly router?: RouterOptions
  /** Frontends that share the workers; each gets every so many-th request. Default 1. */
  readonly frontends?: number
  /** As frontends do: a prompt that does not fit is refused, and an answer ends where the context does. Default: there is no bound. */
  readonly contextLength?: number
  /** Default: TTFT 5000 ms, TPOT 50 ms. */
  readonly goal?: FleetGoal
  /** Latency goals that each request carries, which the router goes by. Default: none. */
  readonly goalsOf?: (request: TraceRequest, index: number) => LatencyGoals | undefined
  /** Of the router's random choices, the network's and the clients'. Default 0. */
  readonly seed?: number
  /** Delay of KV events to the router in ms; null: the engines send none. Default 1. */
  readonly eventDelayMs?: number | null
  /** Closed loop: so many requests under way. Absent: at the times of the trace. */
  readonly concurrency?: number
  /** Workers that die: index in the order of `workers`, moment of the virtual time. */
  readonly deaths?: readonly { readonly worker: number; readonly atMs: number }[]
  readonly faults?: readonly FaultEvent[]
  /** How late one frontend hears what another tells. Default 2; null: they tell each other nothing. */
  readonly peerDelayMs?: number | null
  /** Workers of groups that may change their role do so as the controller decides. Absent: nobody does. */
  readonly roles?: Partial<RoleControllerOptions>
  readonly network?: Partial<NetworkFaults>
  /** Further attempts of a request whose worker is lost. Default 3, as the server's. */
  readonly migrationLimit?: number
  /** What a request takes before a worker has it, and its tokens on their way back: HTTP, parsing, tokenizing. Default 0. */
  readonly overhead?: RequestOverhead
  /** Share of clients that leave before the end. Default 0. */
  readonly leaving?: number
  /** KV goes from worker to worker by offers and pulls, instead of being a time only. Default false. */
  readonly handsKvOver?: boolean
  /** Look at every token, and at the end for what was lost, doubled or left behind. Default false. */
  readonly check?: boolean
  /** Telemetry is taken so often, in virtual time; 0: never. Default 0. */
  readonly sampleMs?: number
  /** Every engine step has a timer. Slower; needed where something cuts replies off in the middle. Default: there. */
  readonly stepwise?: boolean
  readonly onProgress?: (ended: number, total: number, nowMs: number) => void
  /** Resolves when no microtask is left; see `VirtualClock`. In Node: `() => new Promise(setImmediate)`, or that of room `os`. */
  readonly settle?: () => Promise<void>
}
