/**
 * One or several runs as a self-contained HTML page: no script, no network, readable in light and dark mode.
 *
 * The same runs give the same bytes.
 */
import { escapeHtml } from '../../base/index.ts'
import type { DistributionSummary } from './distribution.ts'
import type { FleetWorkerReport } from './fleet-report.ts'
import { QUANTILES } from './lab-run.ts'
import type { LabRun } from './lab-run.ts'
import { lineChart, SERIES_COLOURS, seriesColour, shortNumber } from './svg-chart.ts'

export interface HtmlReportOptions {
  readonly title: string
  /** What was run, one fact per line. */
  readonly facts: readonly string[]
  readonly runs: readonly LabRun[]
  /** Shown after the charts: a table of differences, a plan. */
  readonly sections?: readonly HtmlSection[]
}

export interface HtmlSection {
  readonly title: string
  readonly columns: readonly string[]
  readonly rows: readonly (readonly string[])[]
  readonly note?: string
}

const WORKERS_MAX = 64

const coloursOf = (mode: 0 | 1): string =>
  SERIES_COLOURS.map((colours, i) => `;--s${i}:${colours[mode]}`).join('')

const STYLE = `:root{--ink:#1a1c20;--soft:#5b616b;--line:#dfe2e7;--paper:#fff;--card:#f7f8fa;--bar:#2563eb${coloursOf(0)}}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a0a6b0;--line:#363a42;--paper:#16181c;--card:#1e2126;--bar:#6ea0ff${coloursOf(1)}}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1180px;padding:28px 20px 60px;background:var(--paper);color:var(--ink);color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
h1{font-size:26px;margin:0 0 4px}h2{font-size:17px;margin:34px 0 10px}p,li{color:var(--soft)}ul.facts{margin:4px 0 18px;padding-left:18px}
.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:10px}@media(max-width:640px){.cards{grid-template-columns:repeat(2,1fr)}}.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}
.card b{display:block;font-size:21px;font-variant-numeric:tabular-nums}.card span{color:var(--soft);font-size:12.5px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:14px}.charts svg{width:100%;background:var(--card);border:1px solid var(--line);border-radius:10px}
svg text{font:10.5px system-ui,sans-serif;fill:var(--soft)}svg .title{font-size:13px;font-weight:600;fill:var(--ink)}svg .grid{stroke:var(--line);stroke-width:1}svg .mark{stroke:var(--soft);stroke-dasharray:4 3}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:13px}th,td{padding:5px 6px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left;white-space:normal;min-width:110px}
.dot{display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:7px}.bar{display:inline-block;height:9px;border-radius:3px;background:var(--bar);margin-right:7px}.bad{color:#c92a2a}`

export function htmlReport(options: HtmlReportOptions): string {
  const { title, facts, runs, sections = [] } = options
  const [first] = runs
  const isOne = runs.length === 1 && first !== undefined
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width,initial-scale=1">',
    `<title>${escapeHtml(title)}</title><style>${STYLE}</style></head><body>`,
    `<h1>${escapeHtml(title)}</h1><ul class="facts">`,
    ...facts.map((fact) => `<li>${escapeHtml(fact)}</li>`),
    '</ul>',
    isOne ? cards(first) : '',
    '<h2>Latency and throughput</h2>',
    summaryTable(runs),
    ...sections.map(sectionOf),
    '<h2>Distributions</h2>',
    charts(runs),
    ...(runs.some(({ points }) => points.length > 1)
      ? ['<h2>Over time</h2>', timeCharts(runs)]
      : []),
    ...runs.map((run) => workersOf(run, isOne)),
    '</body></html>\n',
  ].join('\n')
}

function cards({ report }: LabRun): string {
  const { goal } = report
  const failed = Object.values(report.failed).reduce((sum, count) => sum + count, 0)
  const facts: readonly (readonly [string, string])[] = [
    [ms(report.ttftMs.p50), 'time to first token, p50'],
    [ms(report.ttftMs.p99), 'time to first token, p99'],
    [ms(report.itlMs.mean), 'between tokens, mean'],
    [ms(report.e2eMs.p50), 'whole answer, p50'],
    [percent(report.good), `good: TTFT ≤ ${ms(goal.ttftMs)}, TPOT ≤ ${ms(goal.tpotMs)}`],
    [percent(report.reuse), 'of prompt tokens from a cache'],
    [`${report.requestsPerSecond.toFixed(2)}/s`, `requests; ${failed} failed`],
    [`${shortNumber(report.outputTokensPerSecond)}/s`, 'output tokens'],
  ]
  const all = facts.map(
    ([value, name]) => `<div class="card"><b>${value}</b><span>${escapeHtml(name)}</span></div>`,
  )
  return `<div class="cards">${all.join('')}</div>`
}

function summaryTable(runs: readonly LabRun[]): string {
  const three = ({ mean, p50, p99 }: DistributionSummary, digits: number): string[] =>
    [mean, p50, p99].map((value) => value.toFixed(digits))
  return tableOf(
    [
      '',
      ...['TTFT', 'ITL', 'E2E'].flatMap((name) => [`${name} mean`, 'p50', 'p99 ms']),
      'good',
      'requests/s',
      'tokens/s',
      'reuse',
      'failed',
      'migrated',
    ],
    runs.map(({ name, report }, i) => {
      const failed = Object.values(report.failed).reduce((sum, count) => sum + count, 0)
      return [
        `<span class="dot" style="background:${seriesColour(i)}"></span>${escapeHtml(name)}`,
        ...three(report.ttftMs, 0),
        ...three(report.itlMs, 2),
        ...three(report.e2eMs, 0),
        percent(report.good),
        report.requestsPerSecond.toFixed(2),
        report.outputTokensPerSecond.toFixed(0),
        percent(report.reuse),
        failed === 0 ? '0' : `<span class="bad">${failed}</span>`,
        String(report.migrations),
      ]
    }),
  )
}

function charts(runs: readonly LabRun[]): string {
  const goal = runs[0]?.report.goal
  const cdf = (key: 'ttftMs' | 'itlMs' | 'e2eMs', title: string, markX?: number): string =>
    lineChart({
      title,
      xName: 'ms (logarithmic)',
      yName: 'share of all',
      xLog: true,
      yMax: 1,
      yText: percent,
      series: runs.map(({ name, lines }) => ({
        name,
        points: lines[key].map((value, i) => [Math.max(value, 0.01), QUANTILES[i]!] as const),
      })),
      ...(markX === undefined ? {} : { markX }),
    })
  const good = lineChart({
    title: 'Good requests as the goals widen',
    xName: 'times the goals (logarithmic)',
    yName: 'share of all',
    xLog: true,
    yMax: 1,
    yText: percent,
    markX: 1,
    series: runs.map(({ name, goodAt }) => ({ name, points: goodAt })),
  })
  return `<div class="charts">${[
    cdf('ttftMs', 'Time to first token', goal?.ttftMs),
    cdf('itlMs', 'Between two tokens', goal?.tpotMs),
    cdf('e2eMs', 'Whole answer'),
    good,
  ].join('')}</div>`
}

function timeCharts(runs: readonly LabRun[]): string {
  const over = (
    title: string,
    yName: string,
    pick: (point: LabRun['points'][number]) => number | null,
    isShare = false,
  ): string => {
    const series = runs.map(({ name, points }) => ({
      name,
      points: points.flatMap((point) => {
        const value = pick(point)
        return value === null ? [] : [[point.atMs / 1000, value] as const]
      }),
    }))
    // Unknown values are not shown as a chart of zeros.
    if (series.every(({ points }) => points.length === 0)) return ''
    const share = isShare ? { yMax: 1, yText: percent } : {}
    return lineChart({ title, yName, xName: 'seconds', series, ...share })
  }
  return `<div class="charts">${[
    over('Utilisation', 'mean over the workers', ({ busy }) => busy, true),
    over('Under way', 'requests', ({ active }) => active),
    over('Waiting in queues', 'requests, in router and workers', ({ queued }) => queued),
  ].join('')}</div>`
}

function workersOf({ name, report }: LabRun, isOne: boolean): string {
  if (report.workers.length === 0) return ''
  const shown = report.workers.slice(0, WORKERS_MAX)
  const more = report.workers.length - shown.length
  const row = (worker: FleetWorkerReport): string[] => [
    `${worker.workerId} (${worker.mode})`,
    String(worker.requests),
    `<span class="bar" style="width:${Math.round(80 * worker.utilisation)}px"></span>${percent(worker.utilisation)}`,
    percent(worker.promptTokens === 0 ? 0 : worker.cachedTokens / worker.promptTokens),
    shortNumber(worker.promptTokens),
    shortNumber(worker.outputTokens),
    String(worker.preemptions),
  ]
  const columns = [
    'worker',
    'requests',
    'busy',
    'reuse',
    'prompt tokens',
    'output tokens',
    'preempted',
  ]
  const rest = more > 0 ? `<p>and ${more} more workers</p>` : ''
  const heading = isOne ? 'Workers' : `Workers: ${escapeHtml(name)}`
  return `<h2>${heading}</h2>${tableOf(columns, shown.map(row))}${rest}`
}

function sectionOf({ title, columns, rows, note }: HtmlSection): string {
  const text = note === undefined ? '' : `<p>${escapeHtml(note)}</p>`
  const cells = rows.map((row) => row.map(escapeHtml))
  return `<h2>${escapeHtml(title)}</h2>${text}${tableOf(columns, cells)}`
}

/** Cells are HTML. */
function tableOf(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const head = columns.map((column) => `<th>${escapeHtml(column)}</th>`).join('')
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join('')}</tr>`)
  return `<div class="scroll"><table><tr>${head}</tr>${body.join('')}</table></div>`
}

function ms(value: number): string {
  return value >= 10_000 ? `${(value / 1000).toFixed(1)} s` : `${Number(value.toPrecision(3))} ms`
}

/** Near 0 and 100 % with one decimal: 99.6 % is not all. */
function percent(share: number): string {
  const isNearEnd = (share > 0 && share < 0.1) || (share >= 0.985 && share < 1)
  return `${(100 * share).toFixed(isNearEnd ? 1 : 0)} %`
}
