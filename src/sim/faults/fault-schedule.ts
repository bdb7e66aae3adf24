/**
 * Which faults happen to which worker and when: a written schedule, or drawn from a seed.
 */
import { BatonError, isRecord, randomInt, seededRandom } from '../../base/index.ts'

/** `worker`: the index in the order of the fleet's groups; a worker that restarts after a death keeps its index. */
export type FaultEvent =
  | {
      readonly kind: 'death'
      readonly worker: number
      readonly atMs: number
      /** A new process starts after this time; absent: none. */
      readonly restartMs?: number
    }
  | {
      readonly kind: 'slow'
      readonly worker: number
      readonly atMs: number
      readonly untilMs: number
      /** Everything takes this many times as long. */
      readonly factor: number
    }
  | {
      readonly kind: 'partition'
      readonly worker: number
      readonly atMs: number
      readonly untilMs: number
    }
  | { readonly kind: 'break'; readonly worker: number; readonly atMs: number }
  | { readonly kind: 'drain'; readonly worker: number; readonly atMs: number }

/** The number of faults of each kind during a run. */
export interface FaultDraw {
  readonly seed: number
  readonly workers: number
  readonly durationMs: number
  readonly deaths?: number
  readonly restartMs?: number
  readonly slow?: number
  readonly partitions?: number
  readonly breaks?: number
  readonly drains?: number
}

const SLOW_FACTORS = [2, 4, 10] as const

export function drawFaults(draw: FaultDraw): FaultEvent[] {
  const random = seededRandom(draw.seed ^ 0x66617573)
  const { workers, durationMs, restartMs = 1000 } = draw
  const atMs = (): number => random.next() * durationMs
  const worker = (): number => randomInt(random, workers)
  const span = (fromMs: number): number => fromMs + (0.02 + 0.2 * random.next()) * durationMs
  const times = <T>(count: number | undefined, make: () => T): T[] =>
    Array.from({ length: count ?? 0 }, make)
  const events: FaultEvent[] = [
    ...times(
      draw.deaths,
      () => ({ kind: 'death', worker: worker(), atMs: atMs(), restartMs }) as const,
    ),
    ...times(draw.slow, () => {
      const fromMs = atMs()
      const factor = SLOW_FACTORS[randomInt(random, SLOW_FACTORS.length)]!
      return {
        kind: 'slow',
        worker: worker(),
        atMs: fromMs,
        untilMs: span(fromMs),
        factor,
      } as const
    }),
    ...times(draw.partitions, () => {
      const fromMs = atMs()
      return { kind: 'partition', worker: worker(), atMs: fromMs, untilMs: span(fromMs) } as const
    }),
    ...times(draw.breaks, () => ({ kind: 'break', worker: worker(), atMs: atMs() }) as const),
    ...times(draw.drains, () => ({ kind: 'drain', worker: worker(), atMs: atMs() }) as const),
  ]
  return events.sort((a, b) => a.atMs - b.atMs)
}

const MEMBERS: Readonly<Record<FaultEvent['kind'], readonly string[]>> = {
  death: ['restartMs'],
  slow: ['untilMs', 'factor'],
  partition: ['untilMs'],
  break: [],
  drain: [],
}

/**
 * Throws `config.invalid` with the place of the wrong event. Events may come from a file, so every field is
 * validated.
 */
export function checkFaults(events: readonly FaultEvent[], workers: number): void {
  for (const [i, event] of events.entries()) checkFault(event, `faults[${i}]`, workers)
}

function checkFault(event: unknown, place: string, workers: number): void {
  const kinds = Object.keys(MEMBERS)
  if (!isRecord(event) || typeof event['kind'] !== 'string' || !kinds.includes(event['kind']))
    throw new BatonError('config.invalid', `${place}: expected a kind of ${kinds.join(', ')}`)
  const { kind, worker, atMs, untilMs, factor, restartMs } = event
  const members = ['kind', 'worker', 'atMs', ...MEMBERS[kind as FaultEvent['kind']]]
  const refuse = (what: string): never => {
    throw new BatonError('config.invalid', `${place} (${kind as string}): ${what}`)
  }
  const odd = Object.keys(event).find((name) => !members.includes(name))
  if (odd !== undefined) refuse(`unknown name '${odd}': expected one of ${members.join(', ')}`)
  const isTime = (value: unknown): value is number => typeof value === 'number' && value >= 0
  if (!Number.isSafeInteger(worker) || (worker as number) < 0 || (worker as number) >= workers)
    refuse(`there is no worker ${String(worker)}: the fleet has ${workers} workers, counted from 0`)
  if (!isTime(atMs)) return refuse('atMs: expected a number ≥ 0')
  if (members.includes('untilMs') && !(isTime(untilMs) && untilMs >= atMs))
    refuse('untilMs: expected a number that is not before atMs')
  if (kind === 'slow' && !(typeof factor === 'number' && factor > 0 && factor < Infinity))
    refuse('factor: expected a number > 0')
  if (restartMs !== undefined && !isTime(restartMs)) refuse('restartMs: expected a number ≥ 0')
}
