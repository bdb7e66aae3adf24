/**
 * The screen of `baton top` as lines of text: pure, so that a narrow terminal can be tested.
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
  /** When not all columns fit, the one with the highest rank is left out first. */
  readonly rank: number
}

const RED = 31
const GREEN = 32
const YELLOW = 33
const GRAY = 90

const COLUMNS: readonly Column[] = [
  { title: 'WORKER', of: ({ workerId }) => shortId(workerId), rank: 0 },
  { title: 'ROLE', of: ({ role }) => role, rank: 5 },
  { title: 'STATE', of: (worker) => workerSums(worker).state, rank: 3 },
  { title: 'RUN', of: (worker) => String(workerSums(worker).running), isNumber: true, rank: 1 },
  { title: 'QUEUE', of: (worker) => String(workerSums(worker).queued), isNumber: true, rank: 4 },
  { title: 'KV', of: kvText, isNumber: true, rank: 2 },
  {
    title: 'PROMPTS',
    of: (worker) => String(workerSums(worker).prompts),
    isNumber: true,
    rank: 6,
  },
  { title: 'ENGINE', of: ({ engine }) => engine, rank: 8 },
  { title: 'ADDRESS', of: workerAddress, rank: 7 },
]

/** No line is longer than the terminal is wide, and there are no more lines than it has rows. */
export function topScreen(
  name: string,
  fleet: FleetView,
  before: FleetView | null,
  screen: Screen,
): string[] {
  const paint = painter(screen.hasColor)
  const [title, ...facts] = headFacts(name, fleet, before)
  const head = [title, ...wrapped(facts, screen.columns)].map((line) => cut(line, screen.columns))
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

/** The title, and the facts in the lines below it. */
function headFacts(
  name: string,
  fleet: FleetView,
  before: FleetView | null,
): [title: string, ...string[]] {
  const { sums, requestsInFlight, version, frontends } = fleet
  const seconds = before === null ? 0 : (fleet.epochMs - before.epochMs) / 1000
  const rate = (of: (sums: FleetView['sums']) => number): string =>
    before === null || seconds <= 0 || before.frontends !== fleet.frontends
      ? '–'
      : (Math.max(0, of(sums) - of(before.sums)) / seconds).toFixed(1)
  const reused = sums.promptTokens === 0 ? '–' : percent(sums.cachedTokens / sums.promptTokens)
  return [
    `baton ${version}  ${name}  ${new Date(fleet.epochMs).toISOString().slice(11, 19)}`,
    ...(frontends > 1 ? [`${frontends} frontends`] : []),
    `in flight ${requestsInFlight}`,
    `req/s ${rate((all) => all.received)}`,
    `tokens/s ${rate((all) => all.completionTokens)}`,
    `reused ${reused}`,
    `failed ${sums.failed}`,
    `migrated ${sums.migrated}`,
  ]
}

/** Puts as many facts on a line as fit. */
function wrapped(facts: readonly string[], columns: number): string[] {
  const lines: string[] = []
  for (const fact of facts) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 2 + fact.length <= columns) {
      lines[lines.length - 1] = `${last}  ${fact}`
    } else lines.push(fact)
  }
  return lines
}

function warningsOf(fleet: FleetView): string[] {
  return [
    ...(fleet.draining ? ['the frontend is shutting down'] : []),
    ...(fleet.discoveryFault === null ? [] : [`discovery is unreachable: ${fleet.discoveryFault}`]),
    ...(fleet.notes ?? []).map(({ text }) => text),
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
  const queue = prefill.queuedRequests + decode.queuedRequests
  const title = `${model.name}: ${counted(workers.length + workersNotListed, 'worker')}, ${queue} in the router's queue`
  const columns = fitting(
    COLUMNS.map((column) => ({
      column,
      width: Math.max(
        column.title.length,
        ...workers.map((worker) => printable(column.of(worker)).length),
      ),
    })),
    screen.columns,
  )
  const rows = [
    columns.map(({ column }) => column.title),
    ...workers.map((worker) => columns.map(({ column }) => printable(column.of(worker)))),
  ]
  const lines = rows.map((row) =>
    cut(
      row
        .map((cell, i) => {
          const { column, width = 0 } = columns[i] ?? {}
          return column?.isNumber === true ? cell.padStart(width) : cell.padEnd(width)
        })
        .join('  ')
        .trimEnd(),
      screen.columns,
    ),
  )
  const painted = lines.map((line, i) => paint(colorOf(workers[i - 1]), line))
  const hidden = workersNotListed > 0 ? [`… ${counted(workersNotListed, 'more worker')}`] : []
  return [cut(title, screen.columns), ...painted, ...hidden, '']
}

interface WideColumn {
  readonly column: Column
  readonly width: number
}

/** Leaves out the least important columns, so that no line is cut. */
function fitting(all: readonly WideColumn[], columns: number): readonly WideColumn[] {
  const width = all.reduce((sum, each) => sum + each.width + 2, -2)
  if (width <= columns || all.length === 1) return all
  const last = Math.max(...all.map(({ column }) => column.rank))
  return fitting(
    all.filter(({ column }) => column.rank !== last),
    columns,
  )
}

/** Undefined: the header of the table. */
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

/** Text from servers may contain control characters. */
function cut(line: string, columns: number): string {
  const plain = printable(line)
  return plain.length <= columns ? plain : `${plain.slice(0, Math.max(0, columns - 1))}…`
}
