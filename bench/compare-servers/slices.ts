/**
 * Measures servers side by side: all of them run at once and take turns of a second or two, so that other load on
 * the machine affects each of them equally. Every request has a new prompt, the same for each server.
 */
import type { LoadResult } from '../load/load-client.ts'
import { load } from '../load/measure.ts'
import { cpuMicros } from '../load/process-cpu.ts'
import { median } from '../load/summary.ts'
import type { Target } from '../load/targets.ts'

export interface Shape {
  readonly words: number
  readonly tokens: number
  readonly stream: boolean
  readonly concurrency: number
}

export interface Slice {
  readonly micros: number
  readonly result: LoadResult
}

const SEEDS_PER_SLICE = 1_000_000
let slices = 0

/** Sends the same new prompts to each target, one target after the other; the order is reversed each time. */
export async function takeTurns(
  targets: readonly Target[],
  shape: Shape,
  requests: number,
): Promise<Map<Target, Slice>> {
  slices += 1
  const taken = new Map<Target, Slice>()
  const order = slices % 2 === 0 ? targets : targets.toReversed()
  for (const target of order) taken.set(target, await slice(target, shape, requests, slices))
  return taken
}

async function slice(
  target: Target,
  { words, tokens, stream, concurrency }: Shape,
  requests: number,
  turn: number,
): Promise<Slice> {
  const before = cpuMicros(target.pid)
  const asked = { model: target.model, words, tokens, stream }
  const result = await load({
    port: target.port,
    path: '/v1/chat/completions',
    bodies: { asked, firstSeed: turn * SEEDS_PER_SLICE },
    concurrency,
    seconds: 60,
    requestsMax: requests,
    warmupRequests: 0,
  })
  if (result.failures > 0) throw new Error(`${target.name}: ${result.firstFailure}`)
  return { micros: cpuMicros(target.pid) - before, result }
}

/** `rounds` turns; for each target the median over its turns of the result of `figure`. */
export async function medians(
  targets: readonly Target[],
  shape: Shape,
  requests: number,
  rounds: number,
  figure: (slice: Slice) => number,
): Promise<Map<Target, number>> {
  const all = new Map<Target, number[]>(targets.map((target) => [target, []]))
  for (let round = 0; round < rounds; round++) {
    const taken = await takeTurns(targets, shape, requests)
    for (const [target, slice] of taken) all.get(target)?.push(figure(slice))
  }
  return new Map([...all].map(([target, figures]) => [target, median(figures)]))
}

export const perRequest = ({ micros, result }: Slice): number => micros / result.requests
