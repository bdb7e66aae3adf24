/**
 * The screen of `baton top` as lines of text: pure, so that a narrow terminal is a test.
 */
import { printable } from '../../base/index.ts'
import { workerAddress, workerSums } from '../../frontend/index.ts'
import type { FleetView, ModelView, WorkerView } from '../../frontend/index.ts'
import { counted } from './finding.ts'

export interface Screen {
  readonly columns: number
  readonly rows: number
  readonly hasColor: boolean
}

interface Column {
  readonly title: string
  readonly of: (worker: WorkerView) => string
  readonly isNumber?: boolean
  /** Shown from this width of the terminal on. */
  readonly from: number
}

const RED = 31
const GREEN = 32
const YELLOW = 33
const GRAY = 90

const COLUMNS: readonly Column[] = [
  { title: 'WORKER', of: ({ workerId }) => shortId(workerId), from: 0 },
  { title: 'ROLE', of: ({ role }) => role, from: 0 },
  { title: 'STATE', of: (worker) => workerSums(worker).state, from: 30 },
  { title: 'RUN', of: (worker) => String(workerSums(worker).running), isNumber: true, from: 0 },
  { title: 'QUEUE', of: (worker) => String(workerSums(worker).queued), isNumber: true, from: 36 },
  { title: 'KV', of: kvText, isNumber: true, from: 40 },
  {
    title: 'PROMPTS',
    of: (worker) => String(workerSums(worker).prompts),
    isNumber: true,
    from: 64,
  },
  { title: 'ENGINE', of: ({ engine }) => engine, from: 76 },
  { title: 'ADDRESS', of: workerAddress, from: 90 },
]

/** No line is longer than the terminal is wide, and there are no more lines than it has rows. */
export function topScreen(
  name: string,
  fleet: FleetView,
  before: FleetView | null,
  screen: Screen,
): string[] {
  const paint = painter(screen.hasColor)
  const head = headLines(name, fleet, before).map((line) => cut(line, screen.columns))
  const warnings = warningsOf(fleet)
    .slice(0, 4)
    .map((line) => paint(RED, cut(`! ${line}`, screen.columns)))
  const models = fleet.models.flatMap((model) => modelLines(model, screen, paint))
  const lines = [...head, ...warnings, '', ...models]
  if (lines.length <= screen.rows) return lines
  if (screen.rows === 1) return lines.slice(0, 1)
  const shown = lines.slice(0, screen.rows - 1)
  return [...shown, paint(GRAY, cut(`… ${lines.length - shown.length} more lines`, screen.columns))]
}

function headLines(name: string, fleet: FleetView, before: FleetView | null): string[] {
  const { sums, requestsInFlight, version, frontends } = fleet
  const seconds = before === null ? 0 : (fleet.epochMs - before.epochMs) / 1000
  const rate = (of: (sums: FleetView['sums']) => number): string =>
    before === null || seconds <= 0 || before.frontends !== fleet.frontends
      ? '–'
      : (Math.max(0, of(sums) - of(before.sums)) / seconds).toFixed(1)
  const reused = sums.promptTokens === 0 ? '–' : percent(sums.cachedTokens / sums.promptTokens)
  return [
    `baton ${version}  ${name}  ${new Date(fleet.epochMs).toISOString().slice(11, 19)}`,
    `${frontends > 1 ? `${frontends} frontends  ` : ''}in flight ${requestsInFlight}  req/s ${rate((all) => all.received)}  tokens/s ${rate((all) => all.completionTokens)}  ` +
      `reused ${reused}  failed ${sums.failed}  migrated ${sums.migrated}`,
  ]
}

function warningsOf(fleet: FleetView): string[] {
  return [
    ...(fleet.draining ? ['the frontend is shutting down'] : []),
    ...(fleet.discoveryFault === null ? [] : [`discovery is unreachable: ${fleet.discoveryFault}`]),
    ...(fleet.notes ?? []),
    ...(fleet.models.length === 0 ? ['no worker has registered'] : []),
    ...fleet.models.flatMap((model) => [
      ...(model.ready ? [] : [`${model.name}: ${model.reason ?? 'cannot be served'}`]),
      ...model.warnings,
      ...model.workers
        .filter(({ state }) => state !== 'serving')
        .map(({ workerId, state, reason }) => `${shortId(workerId)} is ${state}: ${reason ?? ''}`),
    ]),
  ]
}

type Paint = (color: number, text: string) => string

function modelLines(model: ModelView, screen: Screen, paint: Paint): string[] {
  const { prefill, decode, workers, workersNotListed } = model
  const columns = COLUMNS.filter(({ from }) => screen.columns >= from)
  const queue = prefill.queuedRequests + decode.queuedRequests
  const title = `${model.name}: ${counted(workers.length + workersNotListed, 'worker')}, ${queue} in the router's queue`
  const rows = [
    columns.map((column) => column.title),
    ...workers.map((worker) => columns.map(({ of }) => of(worker))),
  ]
  const widths = columns.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)))
  const lines = rows.map((row) =>
    cut(
      row
        .map((cell, i) =>
          columns[i]?.isNumber === true
            ? cell.padStart(widths[i] ?? 0)
            : cell.padEnd(widths[i] ?? 0),
        )
        .join('  ')
        .trimEnd(),
      screen.columns,
    ),
  )
  const painted = lines.map((line, i) => paint(colorOf(workers[i - 1]), line))
  const hidden = workersNotListed > 0 ? [`… ${counted(workersNotListed, 'more worker')}`] : []
  return [cut(title, screen.columns), ...painted, ...hidden, '']
}

/** Undefined: the head of the table. */
function colorOf(worker: WorkerView | undefined): number {
  if (worker === undefined) return GRAY
  const { state, running } = workerSums(worker)
  if (state === 'full') return YELLOW
  if (state !== 'serving') return RED
  return running > 0 ? GREEN : 0
}

function painter(hasColor: boolean): Paint {
  return (color, text) => (hasColor && color !== 0 ? `\u001B[${color}m${text}\u001B[0m` : text)
}

const percent = (share: number): string => `${Math.round(100 * share)} %`

function kvText(worker: WorkerView): string {
  const { kvShare } = workerSums(worker)
  return kvShare === null ? '–' : percent(kvShare)
}

export function shortId(workerId: string): string {
  return workerId.length > 8 ? `…${workerId.slice(-7)}` : workerId
}

/** What comes from servers may hold anything. */
function cut(line: string, columns: number): string {
  const plain = printable(line)
  return plain.length <= columns ? plain : `${plain.slice(0, Math.max(0, columns - 1))}…`
}
