/**
 * Traces with lengths only: CSV with a header whose names identify the columns (those of the Azure, BurstGPT,
 * Splitwise and Vidur data sets are known), or without one: `input,output` or `ms,input,output`. Cells may also be
 * separated by semicolons or tabs. Prompts share nothing with each other.
 */
import { isTokenCount, noCount, TIME_MAX_MS, wrongLine } from './trace-line.ts'
import { TRACE_BLOCK_TOKENS } from './trace-request.ts'
import type { TraceRequest } from './trace-request.ts'

interface Columns {
  readonly time: number | null
  /** Milliseconds per unit of the time column; null: a date. */
  readonly timeMs: number
  readonly input: number
  readonly output: number
}

/** Reduced to letters and digits. */
const NAMES = {
  input: [
    'input',
    'inputlength',
    'inputlen',
    'inputtokens',
    'inputsequencelength',
    'numinputtokens',
    'isl',
    'prompttokens',
    'promptlength',
    'promptlen',
    'promptsize',
    'numprompttokens',
    'contexttokens',
    'requesttokens',
    'prefilltokens',
    'numprefilltokens',
  ],
  output: [
    'output',
    'outputlength',
    'outputlen',
    'outputtokens',
    'outputsequencelength',
    'numoutputtokens',
    'osl',
    'completiontokens',
    'completionlength',
    'completionlen',
    'numcompletiontokens',
    'generatedtokens',
    'responsetokens',
    'tokensize',
    'decodetokens',
    'numdecodetokens',
  ],
  ms: ['ms', 'timestampms', 'atms', 'timems', 'arrivalms'],
  seconds: [
    'timestamp',
    's',
    'seconds',
    'arrivedat',
    'arrivaltime',
    'arrivaltimestamp',
    'time',
    'date',
    'createdat',
  ],
} as const

export function parseCsv(lines: readonly string[], limit: number): TraceRequest[] {
  const requests: TraceRequest[] = []
  let columns: Columns | null = null
  let separator = ','
  let nextId = 0
  for (const [i, line] of lines.entries()) {
    if (requests.length >= limit) break
    if (line.trim() === '') continue
    if (columns === null) separator = separatorOf(line)
    const cells = cellsOf(line, separator)
    if (columns === null) {
      columns = columnsOf(cells, i + 1)
      if (cells.some((cell) => /[a-z]/i.test(cell) && Number.isNaN(Date.parse(cell)))) continue
    }
    const inputTokens = Number(cells[columns.input])
    const outputTokens = Number(cells[columns.output])
    if (!isTokenCount(inputTokens)) throw wrongLine(i + 1, noCount('input length'))
    // A failed request, which BurstGPT contains.
    if (outputTokens === 0 && cells[columns.output] !== '') continue
    if (!isTokenCount(outputTokens)) throw wrongLine(i + 1, noCount('output length'))
    const blocks = Math.ceil(inputTokens / TRACE_BLOCK_TOKENS)
    requests.push({
      atMs: timeOf(cells, columns, i + 1),
      inputTokens,
      outputTokens,
      hashIds: Array.from({ length: blocks }, () => nextId++),
    })
  }
  return requests.sort((a, b) => a.atMs - b.atMs)
}

function separatorOf(line: string): string {
  return [',', ';', '\t'].find((each) => line.includes(each)) ?? ','
}

/** Quoted cells may contain separators and doubled quotes. */
function cellsOf(line: string, separator: string): string[] {
  if (!line.includes('"')) return line.split(separator).map((cell) => cell.trim())
  const cells = line.matchAll(QUOTED[separator] ?? QUOTED[',']!)
  return Array.from(cells, ([, quoted, plain = '']) =>
    quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"').trim(),
  )
}

/** The cells of a line with quotes, by separator. */
const QUOTED: Readonly<Record<string, RegExp>> = {
  ',': /(?:^|,)\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))/g,
  ';': /(?:^|;)\s*(?:"((?:[^"]|"")*)"\s*|([^;]*))/g,
  '\t': /(?:^|\t) *(?:"((?:[^"]|"")*)" *|([^\t]*))/g,
}

function columnsOf(cells: readonly string[], line: number): Columns {
  const names = cells.map((cell) => cell.toLowerCase().replaceAll(/[^a-z0-9]/g, ''))
  const find = (known: readonly string[]): number => names.findIndex((name) => known.includes(name))
  const [input, output] = [find(NAMES.input), find(NAMES.output)]
  if (input >= 0 && output >= 0) {
    const [ms, seconds] = [find(NAMES.ms), find(NAMES.seconds)]
    if (ms >= 0) return { time: ms, timeMs: 1, input, output }
    return { time: seconds < 0 ? null : seconds, timeMs: 1000, input, output }
  }
  if (cells.some((cell) => cell !== '' && Number.isNaN(Number(cell))))
    throw wrongLine(
      line,
      'names no columns for input and output lengths, such as input_length,output_length',
    )
  if (cells.length === 2) return { time: null, timeMs: 1, input: 0, output: 1 }
  if (cells.length === 3) return { time: 0, timeMs: 1, input: 1, output: 2 }
  throw wrongLine(line, 'has neither two columns (input, output) nor three (ms, input, output)')
}

function timeOf(cells: readonly string[], columns: Columns, line: number): number {
  if (columns.time === null) return 0
  const cell = cells[columns.time] ?? ''
  const number = Number(cell)
  const atMs = cell !== '' && Number.isFinite(number) ? number * columns.timeMs : Date.parse(cell)
  if (Number.isNaN(atMs)) throw wrongLine(line, 'has no time')
  if (Math.abs(atMs) > TIME_MAX_MS) throw wrongLine(line, 'has a time that is later than any date')
  return atMs
}
