/**
 * The figure of `bench/interference.ts`: for each topology, the share of tokens that came later than x milliseconds.
 */
interface Series {
  readonly name: string
  readonly itlMs: readonly number[]
}

const WIDTH = 720
const HEIGHT = 320
const LEFT = 64
const BOTTOM = 48
const TOP = 40
const COLOURS = ['#c2410c', '#0f766e']
const SHARES = [0.5, 0.9, 0.99, 0.999]

/** x: time between tokens (log), y: share of tokens that came within it (log of the rest). */
export function interferenceSvg(series: readonly Series[]): string {
  const all = series.flatMap(({ itlMs }) => itlMs).filter((ms) => ms > 0)
  const least = Math.max(
    0.1,
    all.reduce((a, b) => Math.min(a, b), Infinity),
  )
  const most = all.reduce((a, b) => Math.max(a, b), 1)
  const x = (ms: number): number =>
    LEFT + (Math.log(Math.max(ms, least) / least) / Math.log(most / least)) * (WIDTH - LEFT - 24)
  const y = (share: number): number =>
    TOP + (Math.log10(1 - share) / -3.2) * (HEIGHT - TOP - BOTTOM)
  const ticks = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000].filter((ms) => ms >= least && ms <= most)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    `<text x="${LEFT}" y="20" font-size="14">Time between tokens of 4 streams while 2,000-token prompts arrive</text>`,
    ...ticks.map(
      (ms) =>
        `<line x1="${x(ms)}" y1="${TOP}" x2="${x(ms)}" y2="${HEIGHT - BOTTOM}" stroke="#e5e7eb"/><text x="${x(ms)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${ms} ms</text>`,
    ),
    ...SHARES.map(
      (share) =>
        `<line x1="${LEFT}" y1="${y(share)}" x2="${WIDTH - 24}" y2="${y(share)}" stroke="#e5e7eb"/><text x="${LEFT - 6}" y="${y(share) + 4}" text-anchor="end">p${share * 100}</text>`,
    ),
    ...series.map(({ name, itlMs }, index) => curve(name, itlMs, index, x, y)),
    '</svg>\n',
  ].join('\n')
}

function curve(
  name: string,
  itlMs: readonly number[],
  index: number,
  x: (ms: number) => number,
  y: (share: number) => number,
): string {
  const sorted = [...itlMs].sort((a, b) => a - b)
  const points = Array.from({ length: 200 }, (_, step) => {
    const share = 1 - 10 ** ((-3.2 * step) / 199)
    const ms = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
    return `${x(ms).toFixed(1)},${y(share).toFixed(1)}`
  })
  const colour = COLOURS[index] ?? '#000000'
  const legend = `<text x="${LEFT + 12 + index * 160}" y="${HEIGHT - 8}" fill="${colour}">■ ${name}</text>`
  return `<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.join(' ')}"/>${legend}`
}
