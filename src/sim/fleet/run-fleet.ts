/**
 * A whole fleet under the virtual clock: the real router, migration and workers around the simulated engine, with
 * the requests of a trace, over a simulated network with configured faults.
 *
 * A frontend's own time (tokenising, HTTP) is a delay per request (`overhead`); frontends have unlimited CPU. A run
 * is a function of its configuration.
 */
import { BatonError, seededRandom } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import type { GenerateRequest, LatencyGoals } from '../../request/index.ts'
import type { RouterStatus } from '../../router/index.ts'
import { checkFleet } from './check-fleet.ts'
import { leftBehind } from './left-behind.ts'
import { ReplyWitness } from '../faults/reply-witness.ts'
import { createFleetReport } from '../report/fleet-report.ts'
import type { FleetReport } from '../report/fleet-report.ts'
import { RequestLog } from '../report/request-log.ts'
import { Telemetry } from './telemetry.ts'
import type { TelemetrySample } from './telemetry.ts'
import { promptTokens } from '../trace/trace-request.ts'
import type { TraceRequest } from '../trace/trace-request.ts'
import type { FleetConfig } from './fleet-config.ts'
import { Fleet, LAB_MODEL } from './fleet.ts'
import { LabClient } from './lab-client.ts'
import { LoadSource } from './load-source.ts'

export interface FleetRun {
  readonly report: FleetReport
  readonly log: RequestLog
  readonly telemetry: readonly TelemetrySample[]
  readonly roleChanges: Fleet['roleChanges']
  /** The final status of each frontend's router. */
  readonly routers: readonly RouterStatus[]
}

const PROGRESS_EVERY = 64
const NO_OVERHEAD = { requestMs: 0, msPerToken: 0 }

export async function runFleet(config: FleetConfig): Promise<FleetReport> {
  return (await recordFleet(config)).report
}

/** Like `runFleet`, with everything that was recorded on the way. */
export async function recordFleet(config: FleetConfig): Promise<FleetRun> {
  checkFleet(config)
  const { trace, seed = 0, check = false, onProgress } = config
  const fleet = new Fleet(config)
  const log = new RequestLog(trace.length)
  const witness = check ? new ReplyWitness(trace.length, seed) : null
  const telemetry = new Telemetry(fleet, log, config.sampleMs ?? 0)
  const leaving = new LeavingClients(config.leaving ?? 0, seed)
  await fleet.begin()
  const source = new LoadSource({
    clock: fleet.clock,
    trace,
    concurrency: config.concurrency ?? null,
    send: (index) => {
      const client = new LabClient({
        index,
        clock: fleet.clock,
        log,
        witness,
        leavesAfter: leaving.after(trace[index]!),
        onEnd: () => {
          source.ended(index)
          if (log.endedCount % PROGRESS_EVERY === 0)
            onProgress?.(log.endedCount, trace.length, fleet.clock.nowMs())
        },
      })
      const traced = trace[index]!
      const room = (config.contextLength ?? Infinity) - traced.inputTokens
      if (room <= 0) {
        const text = `the prompt has ${traced.inputTokens} tokens, more than the context of ${config.contextLength}`
        const error = new BatonError('request.context_length_exceeded', text)
        fleet.clock.after(0, () => client.onError(error))
        return
      }
      const fitting = { ...traced, outputTokens: Math.min(traced.outputTokens, room) }
      const request = requestOf(fitting, index, config.goalsOf?.(traced, index))
      witness?.sent(index, request)
      const send = (): void => {
        client.handle = fleet.frontendOf(index).service.send(request, client)
      }
      const { requestMs, msPerToken } = config.overhead ?? NO_OVERHEAD
      const overheadMs = requestMs + msPerToken * request.tokenIds.length
      if (overheadMs === 0) send()
      else fleet.clock.after(overheadMs, send)
    },
  })
  source.start()
  fleet.watchRoles()
  telemetry.start()
  while (log.endedCount < trace.length && fleet.clock.fireNext())
    if (fleet.clock.isUnsettled) await fleet.clock.settle()
  telemetry.stop()
  fleet.endRoles()
  onProgress?.(log.endedCount, trace.length, fleet.clock.nowMs())
  const leftBookings = fleet.frontends.reduce((sum, { bookings }) => sum + bookings, 0)
  const violations: string[] = []
  if (witness !== null) {
    await fleet.quiesce()
    witness.checkAll()
    violations.push(...witness.violations, ...leftBehind(fleet))
  }
  const routers = fleet.frontends.map(({ router }) => router.status())
  for (const { router } of fleet.frontends) router.close()
  const report = createFleetReport(
    log,
    {
      requests: trace.length,
      leftBookings,
      migrations: fleet.migrations,
      violations: violations.map((violation) => `seed ${seed}: ${violation}`),
      goal: config.goal ?? { ttftMs: 5000, tpotMs: 50 },
    },
    fleet.workers.map(({ workerId, mode, count }) => ({ workerId, mode, ...count.totals })),
  )
  return { report, log, telemetry: telemetry.samples, roleChanges: fleet.roleChanges, routers }
}

/** Clients that disconnect before their answer is complete. */
class LeavingClients {
  readonly #share: number
  readonly #random: Random

  constructor(share: number, seed: number) {
    this.#share = share
    this.#random = seededRandom(seed ^ 0x6c656176)
  }

  after({ outputTokens }: TraceRequest): number {
    if (this.#share === 0 || this.#random.next() >= this.#share) return Infinity
    return Math.floor(this.#random.next() * outputTokens)
  }
}

function requestOf(
  request: TraceRequest,
  index: number,
  goals: LatencyGoals | undefined,
): GenerateRequest {
  const { sessionId, priority } = request
  return {
    requestId: `trace-${index + 1}`,
    model: LAB_MODEL,
    tokenIds: promptTokens(request),
    sampling: {},
    stop: { maxTokens: request.outputTokens, ignoreEos: true },
    output: {},
    eosTokenIds: [],
    routing: {
      ...(sessionId === undefined ? {} : { sessionId }),
      ...(priority === undefined ? {} : { priority }),
      ...(goals === undefined ? {} : { goals }),
    },
  }
}
