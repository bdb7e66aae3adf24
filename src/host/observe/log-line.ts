/**
 * Formats a log line for a terminal: time, level, message, then the facts. Text that clients chose (names, ids) may
 * contain anything, so control characters are escaped.
 */
import { isRecord, printable } from '../../base/index.ts'

const LEVELS: Readonly<Record<number, readonly [name: string, color: number]>> = {
  10: ['TRACE', 90],
  20: ['DEBUG', 90],
  30: ['INFO ', 32],
  40: ['WARN ', 33],
  50: ['ERROR', 31],
  60: ['FATAL', 31],
}
const DIM = 90

/** `json`: one line as the logger writes it; other text is returned unchanged. */
export function logLine(json: string, hasColor: boolean): string {
  let line: unknown
  try {
    line = JSON.parse(json)
  } catch {
    return json
  }
  if (!isRecord(line)) return json
  const { level, time, msg, ...facts } = line
  const paint = (color: number, text: string): string =>
    hasColor ? `\u001B[${color}m${text}\u001B[0m` : text
  const [name, color] = LEVELS[Number(level)] ?? ['     ', DIM]
  const at = new Date(Number(time)).toISOString().slice(11, 23)
  const told = Object.entries(facts).map(([key, value]) => `${key}=${shown(value)}`)
  const head = `${paint(DIM, at)} ${paint(color, name)} ${printable(typeof msg === 'string' ? msg : '')}`
  return told.length === 0 ? `${head}\n` : `${head}  ${paint(DIM, told.join(' '))}\n`
}

function shown(value: unknown): string {
  if (typeof value === 'number') return String(Math.round(value * 100) / 100)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /^[^\s"=]+$/.test(text) || typeof value !== 'string'
    ? printable(text)
    : printable(JSON.stringify(text))
}
