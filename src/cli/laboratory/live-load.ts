/**
 * Sends a trace to a live server, open or closed loop, and measures it as a replay in virtual time is measured.
 */
import { BatonError, seededRandom } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import { osClock } from '../../os/index.ts'
import {
  createFleetReport,
  createLabRun,
  Distribution,
  LoadSource,
  RequestLog,
} from '../../sim/index.ts'
import type {
  DistributionSummary,
  FleetGoal,
  LabPoint,
  LabRun,
  TraceRequest,
} from '../../sim/index.ts'
import { livePrompt } from './live-prompt.ts'
import type { LivePrompts } from './live-prompt.ts'
import type { LiveAsk, LiveTarget } from '../live/live-connection.ts'
import { askLive } from '../live/live-request.ts'

interface LiveLoadOptions {
  readonly name: string
  readonly target: LiveTarget
  readonly trace: readonly TraceRequest[]
  readonly prompts: LivePrompts
  readonly goal: FleetGoal
  readonly concurrency: number | null
  readonly seed: number
  /** Shares (0 to 1) of clients that disconnect before the end, and of clients that read slowly. */
  readonly leaving: number
  readonly slow: number
  readonly onProgress: (ended: number, total: number, nowMs: number) => void
  /** When it fires nothing more is sent, and requests that are running are not part of the report. */
  readonly interrupt: AbortSignal
}

const SAMPLE_MS = 250
const SLOW_PAUSE_MS = 100

export interface LiveLoad {
  readonly run: LabRun
  readonly log: RequestLog
  readonly points: readonly LabPoint[]
  /** The first message for each error code. */
  readonly messages: ReadonlyMap<string, string>
  /** By how much requests of an open loop were sent after their times, in ms: only the client can cause it. */
  readonly late: DistributionSummary
}

export async function runLiveLoad(options: LiveLoadOptions): Promise<LiveLoad> {
  const { name, trace, goal, concurrency, onProgress, interrupt } = options
  const log = new RequestLog(trace.length)
  const clock = clockFromNow(interrupt)
  const sums = { promptTokens: 0, cachedTokens: 0 }
  const points: LabPoint[] = []
  const messages = new Map<string, string>()
  const late = new Distribution()
  let active = 0
  const sampler = setInterval(() => {
    points.push({ atMs: clock.nowMs(), queued: null, active, busy: null })
  }, SAMPLE_MS)
  const random = seededRandom(options.seed ^ 0x6c697665)
  try {
    await new Promise<void>((resolve) => {
      interrupt.addEventListener('abort', () => resolve(), { once: true })
      const source = new LoadSource({
        clock,
        trace,
        concurrency,
        send: (index) => {
          active += 1
          const { atMs, after, waitsFor } = trace[index]!
          if (concurrency === null && after === undefined && waitsFor === undefined)
            late.add(Math.max(0, clock.nowMs() - atMs))
          const client = {
            leavesAfter:
              random.next() < options.leaving
                ? Math.floor(random.next() * trace[index]!.outputTokens)
                : Infinity,
            pauseMs: random.next() < options.slow ? SLOW_PAUSE_MS : 0,
          }
          void serve(options, { index, log, clock, sums, messages, ...client }).then(() => {
            if (interrupt.aborted) return
            active -= 1
            onProgress(log.endedCount, trace.length, clock.nowMs())
            source.ended(index)
            if (log.endedCount === trace.length) resolve()
          })
        },
      })
      source.start()
    })
  } finally {
    clearInterval(sampler)
  }
  const ended = {
    requests: interrupt.aborted ? log.endedCount : trace.length,
    leftBookings: 0,
    migrations: 0,
    violations: [],
    goal,
  }
  const { promptTokens, cachedTokens } = sums
  const reuse = promptTokens === 0 ? 0 : cachedTokens / promptTokens
  const report = { ...createFleetReport(log, ended, []), promptTokens, cachedTokens, reuse }
  const run = createLabRun({ name, report, log, points })
  return { run, log, points, messages, late: late.summary() }
}

interface LiveClient {
  readonly index: number
  readonly log: RequestLog
  readonly clock: Clock
  readonly sums: { promptTokens: number; cachedTokens: number }
  readonly messages: Map<string, string>
  /** The number of tokens after which this client disconnects. */
  readonly leavesAfter: number
  readonly pauseMs: number
}

/** Never rejects; failures are recorded in the log. */
async function serve(options: LiveLoadOptions, client: LiveClient): Promise<void> {
  const { index, log, clock, sums, messages, leavesAfter, pauseMs } = client
  const request = options.trace[index]!
  const prompt = livePrompt(request, options.prompts)
  const leave = new AbortController()
  const { interrupt } = options
  const offsetMs = performance.now() - clock.nowMs()
  let lastMs = NaN
  let seen = 0
  log.arrived(index, clock.nowMs())
  if (leavesAfter === 0) leave.abort()
  const end = (
    code: Parameters<RequestLog['ended']>[1]['code'],
    tokens: number,
    cachedTokens: number,
  ): void => {
    if (interrupt.aborted) return
    log.ended(index, { code, atMs: clock.nowMs(), tokens, lastTokenMs: lastMs, cachedTokens })
  }
  try {
    const reply = await askLive(options.target, {
      prompt,
      maxTokens: request.outputTokens,
      ...sessionOf(request, options.prompts.salt),
      pauseMs,
      signal: AbortSignal.any([leave.signal, interrupt]),
      onText: (realMs, tokens) => {
        const atMs = realMs - offsetMs
        if (seen === 0) log.firstToken(index, atMs)
        // Tokens of one event share the gap before it.
        else for (let i = 0; i < tokens; i++) log.gap((atMs - lastMs) / tokens)
        lastMs = atMs
        seen += tokens
        if (seen >= leavesAfter) leave.abort()
      },
    })
    if (seen === 0) {
      // The last tokens had no text (for example a partial character): the client sees the end first.
      lastMs = clock.nowMs()
      log.firstToken(index, lastMs)
    }
    sums.promptTokens += reply.promptTokens
    sums.cachedTokens += reply.cachedTokens
    end(null, reply.completionTokens, reply.cachedTokens)
  } catch (thrown) {
    const { code, message } = BatonError.from(thrown, 'backend.unknown')
    if (leave.signal.aborted) return end('request.cancelled', seen, 0)
    if (!messages.has(code)) messages.set(code, message)
    end(code, seen, 0)
  }
}

/** The salt separates the sessions of this load from those of others on the server. */
function sessionOf({ sessionId, priority }: TraceRequest, salt: number): Partial<LiveAsk> {
  return {
    ...(sessionId === undefined ? {} : { sessionId: `${sessionId}-${salt.toString(36)}` }),
    ...(priority === undefined ? {} : { priority }),
  }
}

/** The machine's clock, starting at 0. Its timers end with the interruption: they would keep the process alive. */
function clockFromNow(interrupt: AbortSignal): Clock {
  const startMs = osClock.nowMs()
  const timers = new Set<Timer>()
  interrupt.addEventListener('abort', () => timers.forEach((timer) => timer.cancel()))
  return {
    nowMs: () => osClock.nowMs() - startMs,
    epochMs: () => osClock.epochMs(),
    after: (delayMs, fire) => {
      const timer = osClock.after(delayMs, () => {
        timers.delete(timer)
        if (!interrupt.aborted) fire()
      })
      timers.add(timer)
      return timer
    },
  }
}
