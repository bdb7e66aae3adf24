import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createSchedulerConfig } from '../scheduler/scheduler-config.ts'
import type { SchedulerOptions } from '../scheduler/scheduler-config.ts'
import { SimScheduler } from '../scheduler/sim-scheduler.ts'

interface RecordedRun {
  name: string
  inputTokens: number
  outputTokens: number
  requests: number
  engine: Record<string, unknown>
  workload: {
    arrival_interval_ms?: number
    replay_concurrency?: number
    shared_prefix_ratio?: number
  }
  durationMs: number
  committedPrefillTokens: number
  perRequest: {
    arrivalMs: number
    firstTokenMs: number
    lastTokenMs: number
    ttstMs: number | null
    reusedInputTokens: number
    admissions: [number, number][]
  }[]
}

const VECTORS = new URL('../../../test/vectors/mock-engine-timing.json', import.meta.url)
const { runs } = JSON.parse(readFileSync(VECTORS, 'utf8')) as { runs: RecordedRun[] }

function optionsOf(engine: Record<string, unknown>): SchedulerOptions {
  return {
    blockCount: (engine.num_gpu_blocks as number | undefined) ?? 16384,
    blockTokens: (engine.block_size as number | undefined) ?? 64,
    ...(engine.backend === 'trtllm' ? { engineType: 'trtllm' } : {}),
    ...(engine.max_num_batched_tokens === undefined
      ? {}
      : { tokenBudget: engine.max_num_batched_tokens as number }),
    ...(engine.speedup_ratio === undefined ? {} : { speedupRatio: engine.speedup_ratio as number }),
    ...(engine.decode_speedup_ratio === undefined
      ? {}
      : { decodeSpeedupRatio: engine.decode_speedup_ratio as number }),
  }
}

interface Result {
  arrivalMs: number
  tokenMs: number[]
  admissions: [number, number][]
}

/** Hashes that are equal for the shared prefix and unlike for all else. */
function promptHashes(run: RecordedRun, request: number, blockTokens: number): Uint32Array {
  const blocks = Math.floor(run.inputTokens / blockTokens)
  const shared = Math.floor(
    (run.inputTokens * (run.workload.shared_prefix_ratio ?? 0)) / blockTokens,
  )
  return Uint32Array.from({ length: 2 * blocks }, (_, i) => {
    const owner = i >> 1 < shared ? 0 : request + 1
    return i % 2 === 0 ? i >> 1 : owner
  })
}

function replay(run: RecordedRun): { results: Result[]; endMs: number } {
  const config = createSchedulerConfig(optionsOf(run.engine))
  let generatedHash = 1e6
  const scheduler = new SimScheduler<Result>(config, (sequence) => {
    sequence.hashes.push(generatedHash++, 0xffff)
  })
  const results: Result[] = []
  const together = run.workload.replay_concurrency ?? run.requests
  let [nowMs, live] = [0, 0]
  for (;;) {
    while (results.length < run.requests && live < together) {
      const owner: Result = { arrivalMs: nowMs, tokenMs: [], admissions: [] }
      const hashes = promptHashes(run, results.length, config.blockTokens)
      results.push(owner)
      live += 1
      const { inputTokens, outputTokens } = run
      scheduler.submit(
        { owner, promptTokens: inputTokens, promptHashes: hashes, outputTokens },
        nowMs,
      )
    }
    const step = scheduler.step(nowMs)
    if (step === null) return { results, endMs: nowMs }
    for (const { owner, cachedTokens } of step.admitted)
      owner.admissions.push([nowMs, cachedTokens])
    for (const { owner } of step.emitted) owner.tokenMs.push(step.endMs)
    live -= step.completed.length
    nowMs = step.endMs
  }
}

describe('simulated engine timing - the recorded runs of the reference', () => {
  it.each(
    runs.map((run, i) => ({
      ...run,
      title: `${i} ${run.name}, ${run.inputTokens}+${run.outputTokens}`,
    })),
  )('$title', (run) => {
    const { results, endMs } = replay(run)
    expect(endMs).toBeCloseTo(run.durationMs, 5)
    expect(results).toHaveLength(run.perRequest.length)
    const byFirst = (a: { first: number }, b: { first: number }): number => a.first - b.first
    const seen = results
      .map((r) => ({
        first: r.tokenMs[0]!,
        last: r.tokenMs.at(-1)!,
        ttst: r.tokenMs.length > 1 ? r.tokenMs[1]! - r.tokenMs[0]! : null,
        admissions: r.admissions,
      }))
      .sort(byFirst)
    const recorded = run.perRequest
      .map((r) => ({
        first: r.firstTokenMs,
        last: r.lastTokenMs,
        ttst: r.ttstMs,
        admissions: r.admissions,
      }))
      .sort(byFirst)
    for (const [i, one] of recorded.entries()) {
      expect(seen[i]!.first).toBeCloseTo(one.first, 5)
      expect(seen[i]!.last).toBeCloseTo(one.last, 5)
      if (one.ttst !== null) expect(seen[i]!.ttst).toBeCloseTo(one.ttst, 5)
      expect(seen[i]!.admissions).toHaveLength(one.admissions.length)
      for (const [k, [atMs]] of one.admissions.entries())
        expect(seen[i]!.admissions[k]![0]).toBeCloseTo(atMs, 5)
      expect(seen[i]!.admissions.map(([, reused]) => reused)).toEqual(
        one.admissions.map(([, reused]) => reused),
      )
    }
  })
})
