/**
 * `baton bench`: sends a trace or a workload to live servers and prints the report of a replay; through the
 * router and directly to the engine in one run.
 */
import { watchShutdownSignals } from '../../host/index.ts'
import { htmlReport, traceNotes } from '../../sim/index.ts'
import type { LabRun } from '../../sim/index.ts'
import { serverUrl } from '../commands/ask-server.ts'
import { loadTrace } from './lab-cell.ts'
import { apiKeyOf } from './lab-flags.ts'
import type { Flags } from './lab-flags.ts'
import {
  checkOutputs,
  printsTable,
  progressLine,
  runsTable,
  unanswered,
  writeText,
} from './lab-output.ts'
import { aboveZero, numberOf, refusal, shareOf, wholeOf } from './lab-pairs.ts'
import { describeTrace, traceSpec } from './lab-trace.ts'
import { firstLiveModel, SILENCE_SECONDS, SILENCE_SECONDS_MAX } from '../live/live-connection.ts'
import { runLiveLoad } from './live-load.ts'
import type { LiveLoad } from './live-load.ts'
import { parseTokenRange, promptSalt } from './live-prompt.ts'

/** One request in ten that is sent this late makes the load another one than that of the trace. */
const LATE_MS = 50

/** As a shell reports a program that was ended by this signal. */
const EXIT_INTERRUPTED: Readonly<Record<string, number>> = {
  SIGHUP: 129,
  SIGINT: 130,
  SIGTERM: 143,
}

/**
 * Exit code 1: a request failed, or none was answered. After Ctrl-C the report contains the requests that had ended;
 * another Ctrl-C ends the process at once.
 */
export async function runBench(url: string, given: string, flags: Flags): Promise<number> {
  const interrupt = new AbortController()
  const signals = watchShutdownSignals({ onFirst: () => interrupt.abort() })
  try {
    const exitCode = await benched(url, given, flags, interrupt.signal)
    return interrupt.signal.aborted ? (EXIT_INTERRUPTED[await signals.first] ?? exitCode) : exitCode
  } finally {
    signals.close()
  }
}

async function benched(
  url: string,
  given: string,
  flags: Flags,
  interrupt: AbortSignal,
): Promise<number> {
  const spec = traceSpec(given, flags)
  const trace = loadTrace(spec)
  checkOutputs(flags, 'json', 'html', 'requests', 'telemetry')
  const targets = [
    ...(flags['direct'] === undefined
      ? []
      : [['direct', serverUrl(flags['direct'], '--direct')] as const]),
    ['routed', serverUrl(url, '<url>')] as const,
  ]
  const goal = {
    ttftMs: numberOf('--ttft', flags['ttft'] ?? 5000),
    tpotMs: numberOf('--tpot', flags['tpot'] ?? 50),
  }
  const concurrency =
    flags['concurrency'] === undefined ? null : wholeOf('--concurrency', flags['concurrency'], 1)
  const apiKey = apiKeyOf(flags)
  const isChat = flags['chat'] === true
  const range =
    flags['text'] === true || isChat
      ? null
      : parseTokenRange(String(flags['tokenRange'] ?? '300:1300'))
  const silenceMs = 1000 * silenceOf(flags['timeout'])
  const runs: LabRun[] = []
  const rows: string[] = []
  const samples: string[] = []
  const reasons: string[] = []
  const seed = wholeOf('--seed', flags['seed'] ?? 0)
  const notes: string[] = []
  for (const [index, [name, target]] of targets.entries()) {
    if (interrupt.aborted) break
    const model =
      typeof flags['model'] === 'string'
        ? flags['model']
        : await firstLiveModel(target, apiKey.apiKey)
    if (interrupt.aborted) break
    const label = targets.length > 1 ? `${name} ${target}` : target
    const load = await runLiveLoad({
      name: label,
      target: { url: target, model, isChat, silenceMs, ...apiKey },
      trace,
      prompts: { range, salt: promptSalt(spec, seed, index) },
      goal,
      concurrency,
      seed,
      leaving: shareOf('--leaving', flags['leaving'] ?? 0),
      slow: shareOf('--slow', flags['slow'] ?? 0),
      onProgress: progressLine(flags, label, 'real'),
      interrupt,
    })
    const { run, log, points } = load
    runs.push(run)
    notes.push(...notesOf(label, load, trace.length, interrupt.aborted))
    reasons.push(...reasonsOf(label, load))
    for (const { atMs, active } of points)
      samples.push(`${JSON.stringify({ run: name, atMs, activeRequests: active })}\n`)
    for (const row of log.rows()) rows.push(`${JSON.stringify({ run: name, ...row })}\n`)
  }
  if (runs.length === 0) return 1
  if (typeof flags['requests'] === 'string') writeText(flags['requests'], rows.join(''))
  if (typeof flags['telemetry'] === 'string') writeText(flags['telemetry'], samples.join(''))
  const facts = [
    describeTrace(spec, trace.length),
    ...notes,
    ...traceNotes(trace, concurrency),
    concurrency === null
      ? 'open loop: requests are sent at the times of the trace'
      : `closed loop: ${concurrency} requests at a time`,
    `good: TTFT ≤ ${goal.ttftMs} ms and TPOT ≤ ${goal.tpotMs} ms; tokens as the server counts them; ITL: gap between two events divided by the tokens of the event`,
  ]
  tell(flags, { facts, runs, reasons })
  return exitCodeOf(runs)
}

/** Reasons why the report of this server is not that of the whole load. */
function notesOf(
  label: string,
  { run, late }: LiveLoad,
  requests: number,
  isInterrupted: boolean,
): readonly string[] {
  const notes: string[] = []
  if (isInterrupted)
    notes.push(
      `interrupted: the report of ${label} has the ${run.report.requests} of ${requests} requests that had ended`,
    )
  if (late.p90 > LATE_MS)
    notes.push(
      `the client was too slow for this rate: requests of ${label} were sent ${late.p50.toFixed(0)} ms late (median; p99 ${late.p99.toFixed(0)} ms). Use a lower rate, or several clients`,
    )
  return notes
}

/** Each error code with its number and its first message. */
function reasonsOf(label: string, { run, messages }: LiveLoad): readonly string[] {
  return Object.entries(run.report.failed).map(
    ([code, count]) => `${label}: ${count} × ${[code, messages.get(code) ?? []].flat().join(': ')}`,
  )
}

/** Also prints the servers that answered nothing. */
function exitCodeOf(runs: readonly LabRun[]): number {
  const faults = runs.flatMap(({ name, report }) => {
    const fault = unanswered(report)
    return fault === null ? [] : [`baton: ${name}: ${fault}`]
  })
  for (const fault of faults) console.error(fault)
  const hasFailed = ({ report }: LabRun): boolean =>
    Object.keys(report.failed).some((code) => code !== 'request.cancelled')
  return faults.length > 0 || runs.some(hasFailed) ? 1 : 0
}

function silenceOf(given: Flags[string]): number {
  const seconds = aboveZero('--timeout', given ?? SILENCE_SECONDS)
  if (seconds <= SILENCE_SECONDS_MAX) return seconds
  throw refusal('--timeout', `${seconds} is invalid: expected at most ${SILENCE_SECONDS_MAX}`)
}

interface Told {
  readonly facts: readonly string[]
  readonly runs: readonly LabRun[]
  /** What failed, with the first message for each error code. */
  readonly reasons: readonly string[]
}

function tell(flags: Flags, { facts, runs, reasons }: Told): void {
  if (printsTable(flags)) {
    console.log(`${facts.join('\n')}\n\n${runsTable(runs)}`)
    for (const reason of reasons) console.log(reason)
  }
  if (typeof flags['json'] === 'string')
    writeText(flags['json'], `${JSON.stringify({ facts, runs }, null, 2)}\n`)
  if (typeof flags['html'] === 'string')
    writeText(flags['html'], htmlReport({ title: 'Bench', facts, runs }))
}
