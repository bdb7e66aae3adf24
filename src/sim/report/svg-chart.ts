/**
 * Line charts as SVG text: several series, a linear or logarithmic axis, a legend by colour. No script, no font, no
 * file.
 */
import { escapeHtml } from '../../base/index.ts'
interface ChartSeries {
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

interface ChartOptions {
  readonly title: string
  readonly xName: string
  readonly yName: string
  readonly series: readonly ChartSeries[]
  readonly xLog?: boolean
  readonly yMax?: number
  readonly xText?: (x: number) => string
  readonly yText?: (y: number) => string
  /** A vertical line, for a goal. */
  readonly markX?: number
}

const SIZE = { width: 460, height: 250, left: 52, right: 14, top: 30, bottom: 38 } as const
/** Of series in light mode and in dark mode, where the light ones would be hard to see. */
export const SERIES_COLOURS = [
  ['#2563eb', '#6ea0ff'],
  ['#e8590c', '#ff922b'],
  ['#2b8a3e', '#51cf66'],
  ['#9c36b5', '#da77f2'],
  ['#c2255c', '#f783ac'],
  ['#0b7285', '#3bc9db'],
  ['#846358', '#c4a69b'],
  ['#5c940d', '#a9e34b'],
] as const

/** The CSS variable with the colour of the series; colours repeat. */
export function seriesColour(index: number): string {
  return `var(--s${index % SERIES_COLOURS.length})`
}

export function lineChart(options: ChartOptions): string {
  const { title, series, xLog = false, markX } = options
  const xs = series.flatMap(({ points }) => points.map(([x]) => x)).filter(Number.isFinite)
  const ys = series.flatMap(({ points }) => points.map(([, y]) => y)).filter(Number.isFinite)
  const x = axis(xs, xLog, SIZE.left, SIZE.width - SIZE.right)
  const rows = rowsOf(options.yMax ?? null, Math.max(0, ...ys))
  const top = rows.at(-1)!
  const y = (value: number): number =>
    SIZE.height - SIZE.bottom - (value / top) * (SIZE.height - SIZE.top - SIZE.bottom)
  const lines = series.map(({ points, name }, i) => {
    const path = points
      .filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py))
      .map(([px, py], at) => `${at === 0 ? 'M' : 'L'}${x.at(px).toFixed(1)} ${y(py).toFixed(1)}`)
      .join('')
    // A repeated colour is dashed.
    const dashes = i < SERIES_COLOURS.length ? '' : ' stroke-dasharray="6 3"'
    return `<path d="${path}" fill="none" style="stroke:${seriesColour(i)}" stroke-width="1.8"${dashes}><title>${escapeHtml(name)}</title></path>`
  })
  const mark =
    markX === undefined || markX < x.from || markX > x.to
      ? ''
      : `<line class="mark" x1="${x.at(markX).toFixed(1)}" x2="${x.at(markX).toFixed(1)}" y1="${SIZE.top}" y2="${SIZE.height - SIZE.bottom}"/>`
  return [
    `<svg viewBox="0 0 ${SIZE.width} ${SIZE.height}" role="img" aria-label="${escapeHtml(title)}">`,
    `<text class="title" x="${SIZE.left}" y="16">${escapeHtml(title)}</text>`,
    gridOf(options, x, rows, y),
    mark,
    ...lines,
    '</svg>',
  ].join('')
}

/** A logarithmic axis with at most this many decades has labels at 2 and 5, too. */
const LABELLED_DECADES = 2.5

interface Axis {
  readonly from: number
  readonly to: number
  at(value: number): number
  readonly ticks: readonly number[]
}

function axis(values: readonly number[], isLog: boolean, left: number, right: number): Axis {
  const positive = isLog ? values.filter((value) => value > 0) : values
  const low = positive.length === 0 ? (isLog ? 1 : 0) : Math.min(...positive)
  const high = positive.length === 0 ? 10 : Math.max(...positive)
  if (isLog) {
    const from = 10 ** Math.floor(Math.log10(low))
    const to = Math.max(10 * from, 10 ** Math.ceil(Math.log10(high)))
    const span = Math.log10(to / from)
    const decades = Array.from({ length: Math.round(span) + 1 }, (_, i) => from * 10 ** i)
    const between = span > LABELLED_DECADES ? [] : decades.flatMap((tick) => [2 * tick, 5 * tick])
    const ticks = [...decades, ...between.filter((tick) => tick < to)]
    const at = (value: number): number =>
      left + (Math.log10(Math.max(value, from) / from) / span) * (right - left)
    return { from, to, ticks, at }
  }
  const to = high > low ? high : low + 1
  const step = niceStep((to - low) / 5)
  const ticks: number[] = []
  for (let tick = Math.ceil(low / step) * step; tick <= to; tick += step) ticks.push(tick)
  const at = (value: number): number => left + ((value - low) / (to - low)) * (right - left)
  return { from: low, to, ticks, at }
}

function gridOf(
  options: ChartOptions,
  x: Axis,
  levels: readonly number[],
  y: (value: number) => number,
): string {
  const { xName, yName, xText = shortNumber, yText = shortNumber } = options
  const bottom = SIZE.height - SIZE.bottom
  const rows = levels.map((level) => {
    const at = y(level).toFixed(1)
    return `<line class="grid" x1="${SIZE.left}" x2="${SIZE.width - SIZE.right}" y1="${at}" y2="${at}"/><text x="${SIZE.left - 6}" y="${at}" text-anchor="end" dy="3">${yText(level)}</text>`
  })
  const columns = x.ticks.map((tick) => {
    const at = x.at(tick).toFixed(1)
    return `<line class="grid" x1="${at}" x2="${at}" y1="${SIZE.top}" y2="${bottom}"/><text x="${at}" y="${bottom + 13}" text-anchor="middle">${xText(tick)}</text>`
  })
  const names = `<text x="${SIZE.width - SIZE.right}" y="${SIZE.height - 6}" text-anchor="end">${escapeHtml(xName)}</text><text x="${SIZE.left}" y="${SIZE.top - 4}">${escapeHtml(yName)}</text>`
  return [...rows, ...columns, names].join('')
}

export function shortNumber(value: number): string {
  const size = Math.abs(value)
  if (size >= 1e6) return `${trimmed(value / 1e6)}M`
  if (size >= 1e3) return `${trimmed(value / 1e3)}k`
  return trimmed(value)
}

function trimmed(value: number): string {
  return Number(value.toPrecision(3)).toString()
}

/** The levels of the horizontal lines, from 0 to the top of the chart. */
function rowsOf(top: number | null, highest: number): readonly number[] {
  if (top !== null) return [0, 0.25, 0.5, 0.75, 1].map((share) => share * top)
  const step = highest <= 0 ? 1 : niceStep(highest / 4)
  const count = Math.max(1, Math.ceil(highest / step))
  return Array.from({ length: count + 1 }, (_, i) => i * step)
}

function niceStep(raw: number): number {
  const size = 10 ** Math.floor(Math.log10(raw))
  const times = raw / size
  return size * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10)
}
