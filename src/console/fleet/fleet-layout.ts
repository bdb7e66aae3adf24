/**
 * The positions of workers in the picture: one column per role, with boxes while there is room, otherwise a grid of
 * cells.
 */
import type { FleetView, WorkerView } from '../../frontend/index.ts'

export interface Placed {
  readonly worker: WorkerView
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
  /** Too small for text. */
  readonly isCell: boolean
}

export interface Column {
  readonly title: string
  readonly x: number
  readonly workers: readonly Placed[]
}

export interface Layout {
  readonly columns: readonly Column[]
  readonly byWorker: ReadonlyMap<string, Placed>
  readonly key: string
}

export const WIDTH = 960
export const HEIGHT = 300
export const DOOR = { x: 60, y: HEIGHT / 2 }
const TOP = 36
const BOXES_MAX = 6
const BOX_WIDTH = 170
const GRID_WIDTH = 250
const CELLS_MAX = 600

export function layoutOf(fleet: FleetView): Layout {
  const workers = fleet.models.flatMap((model) => model.workers)
  const ofRole = (role: string): WorkerView[] => workers.filter((worker) => worker.role === role)
  const prefill = ofRole('prefill')
  const rest = workers.filter(({ role }) => role !== 'prefill')
  const decodeTitle = prefill.length > 0 || ofRole('decode').length > 0 ? 'decode' : 'workers'
  const columns = [
    ...(prefill.length > 0 ? [columnOf('prefill', 330, prefill)] : []),
    columnOf(decodeTitle, prefill.length > 0 ? 690 : 510, rest),
  ]
  const placed = columns.flatMap((column) => column.workers)
  return {
    columns,
    byWorker: new Map(placed.map((place) => [place.worker.workerId, place])),
    key: placed.map(({ worker, isCell }) => `${worker.workerId}${isCell ? 'c' : 'b'}`).join(),
  }
}

function columnOf(title: string, x: number, workers: readonly WorkerView[]): Column {
  const text = `${title} (${workers.length})`
  return {
    title: text,
    x,
    workers: workers.length <= BOXES_MAX ? boxes(x, workers) : cells(x, workers),
  }
}

function boxes(x: number, workers: readonly WorkerView[]): Placed[] {
  const room = (HEIGHT - TOP) / Math.max(workers.length, 1)
  const height = Math.min(64, room - 8)
  return workers.map((worker, i) => ({
    worker,
    x: x - BOX_WIDTH / 2,
    y: TOP + room * i + (room - height) / 2,
    width: BOX_WIDTH,
    height,
    isCell: false,
  }))
}

function cells(x: number, workers: readonly WorkerView[]): Placed[] {
  const shown = workers.slice(0, CELLS_MAX)
  const area = (GRID_WIDTH * (HEIGHT - TOP - 8)) / shown.length
  const size = Math.max(8, Math.min(34, Math.floor(Math.sqrt(area))))
  const perRow = Math.max(1, Math.floor(GRID_WIDTH / size))
  return shown.map((worker, i) => ({
    worker,
    x: x - GRID_WIDTH / 2 + (i % perRow) * size,
    y: TOP + Math.floor(i / perRow) * size,
    width: size - 2,
    height: size - 2,
    isCell: true,
  }))
}
