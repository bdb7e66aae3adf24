/**
 * How much of the figures is chance: how often a router would lose and win that is as good as the best of the others by
 * construction. Everything is judged with half of the seeds, in turn with the one and the other half.
 */
import { gainOn, isBetter, isWorse, METRICS, othersOf, TITLES } from './figures.ts'
import type { Cells, LoadCells, Metric } from './figures.ts'
import { JUDGED, repeated } from './policies.ts'

/** Repetitions of the judged policy; of each other one there is one. */
const REPEATED = 4
const repetitions = Array.from({ length: REPEATED }, (_, i) => repeated(JUDGED, i + 1))

export const withRepeated = (names: readonly string[]): string[] => [
  ...names,
  ...othersOf(names).map((name) => repeated(name, 1)),
  ...repetitions,
]

/** The cells of one load with some of its seeds, and with the other ones. */
interface Half {
  readonly seen: LoadCells
  readonly unseen: LoadCells
}

interface Contest {
  readonly ours: string
  readonly others: readonly string[]
}

/** What is taken for ours, and with what it is compared. */
const CONTESTS: Readonly<Record<string, (half: Half, metric: Metric) => Contest>> = {
  [JUDGED]: ({ seen }) => ({ ours: JUDGED, others: others(seen) }),
  'the best of the others, repeated': ({ seen }, metric) => ({
    ours: repeated(bestOf(seen, others(seen), metric), 1),
    others: others(seen),
  }),
  'the best of the others with other seeds': ({ seen, unseen }, metric) => ({
    ours: bestOf(unseen, others(unseen), metric),
    others: others(seen),
  }),
  [`${JUDGED}, with ${REPEATED} repetitions as the others`]: () => ({
    ours: JUDGED,
    others: repetitions,
  }),
}

const others = (cells: LoadCells): string[] => othersOf(Object.keys(cells))

export function formatNoise(cells: Cells): string {
  const halves = Object.values(cells).flatMap((load) => {
    const [one, other] = [withSeeds(load, 0), withSeeds(load, 1)]
    return [
      { seen: one, unseen: other },
      { seen: other, unseen: one },
    ]
  })
  const rows = Object.entries(CONTESTS).map(([name, contest]) => {
    const gains = METRICS.map((metric) =>
      halves.map((half) => gainOfOurs(half.seen, contest(half, metric), metric)),
    )
    const all = gains.flat()
    const shares = [
      ...[...gains, all].map((some) => share(some, (gain) => isWorse(gain))),
      share(all, (gain) => isWorse(gain, 10)),
      share(all, isBetter),
    ]
    return `| ${[name, ...shares].join(' | ')} |`
  })
  const head = [
    `> 1 % worse than the best, of ${halves.length}`,
    ...METRICS.map((metric) => TITLES[metric]),
    'all',
    '> 10 % worse',
    '≥ 10 % better',
  ]
  return [`| ${head.join(' | ')} |`, `|${'---|'.repeat(head.length)}`, ...rows].join('\n')
}

/** Every second seed, from the first or the second on. */
function withSeeds(load: LoadCells, from: 0 | 1): LoadCells {
  return Object.fromEntries(
    Object.entries(load).map(([name, runs]) => [name, runs.filter((_, seed) => seed % 2 === from)]),
  )
}

function bestOf(cells: LoadCells, names: readonly string[], metric: Metric): string {
  return names.reduce((best, name) =>
    gainOn(cells[best]!, cells[name]!, metric) > 0 ? name : best,
  )
}

function gainOfOurs(cells: LoadCells, contest: Contest, metric: Metric): number {
  const best = bestOf(cells, contest.others, metric)
  return gainOn(cells[best]!, cells[contest.ours]!, metric)
}

function share(gains: readonly number[], isCounted: (gain: number) => boolean): string {
  return `${((100 * gains.filter(isCounted).length) / gains.length).toFixed(0)} %`
}
