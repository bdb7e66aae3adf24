/** Formats figures and ids for the page. */
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

export const count = (value: number): string => whole.format(value)

/** Three significant digits are enough for comparison. */
export function ms(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ms`
}

export function percent(part: number, whole_: number): string {
  return whole_ > 0 ? `${Math.round((100 * part) / whole_)} %` : '–'
}

/** The last characters of a worker's id, enough to tell workers apart. */
export function shortId(workerId: string): string {
  return workerId.length > 6 ? `…${workerId.slice(-5)}` : workerId
}
