/**
 * How long an engine computes a prompt, apart from what HTTP, tokenizer and router take: by how much the answer of
 * somebody else stands still meanwhile.
 *
 * One stream runs; a prompt that nothing has seen is sent beside it. The gaps of the stream grow by what the engine
 * computes of the prompt: in one step, or in as many as there are long gaps. What the first token took longer than that
 * is overhead.
 */
import { askLive } from './live-request.ts'
import type { LiveTarget } from './live-request.ts'

export interface StallPoint {
  readonly tokens: number
  /** Of the engine, without the tokens of the stream that it gave meanwhile. */
  readonly ms: number
  /** Steps in which the engine computed it. */
  readonly pieces: number
  /** All that was not the engine's, the wait for the step under way left out. */
  readonly overheadMs: number
  readonly ttftMs: number
}

export interface StallProbe {
  readonly target: LiveTarget
  readonly repeats: number
  readonly promptOf: (tokens: number) => number[]
}

/** Tokens of the stream before the first prompt, and between two. */
const TOKENS_BETWEEN = 6
const STREAM_TOKENS = 600
/** Gaps between tokens that are looked at together. */
const STRETCH = 8
/** A gap belongs to the prompt when it is so much of the longest one. */
const LONG_SHARE = 0.4

/** Null: the stream gave too few tokens to see anything. */
export async function measureStall(probe: StallProbe, tokens: number): Promise<StallPoint | null> {
  const seen: StallPoint[] = []
  // A stream is long enough for some prompts, not for all.
  for (let tries = 0; tries < 2 * probe.repeats && seen.length < probe.repeats; tries++)
    seen.push(...(await besideOneStream(probe, tokens, probe.repeats - seen.length)))
  if (seen.length === 0) return null
  const middle = (pick: (point: StallPoint) => number): number => medianOf(seen.map(pick))
  return {
    tokens,
    ms: middle(({ ms }) => ms),
    pieces: middle(({ pieces }) => pieces),
    overheadMs: middle(({ overheadMs }) => overheadMs),
    ttftMs: middle(({ ttftMs }) => ttftMs),
  }
}

interface Stream {
  /** When its tokens came. */
  readonly times: number[]
  hasEnded: boolean
}

async function besideOneStream(
  probe: StallProbe,
  tokens: number,
  wanted: number,
): Promise<StallPoint[]> {
  const leave = new AbortController()
  const stream: Stream = { times: [], hasEnded: false }
  const whole = askLive(probe.target, {
    prompt: probe.promptOf(16),
    maxTokens: STREAM_TOKENS,
    signal: leave.signal,
    onText: (atMs) => stream.times.push(atMs),
  })
    .catch(() => undefined)
    .finally(() => {
      stream.hasEnded = true
    })
  const points: StallPoint[] = []
  await tokensAfter(stream, TOKENS_BETWEEN)
  while (points.length < wanted && !stream.hasEnded) {
    const from = stream.times.length
    // Anywhere in a step, as requests come.
    await new Promise((resolve) => setTimeout(resolve, (points.length * 7) % 10))
    const sentMs = performance.now()
    const { firstMs } = await askLive(probe.target, {
      prompt: probe.promptOf(tokens),
      maxTokens: 1,
    })
    await tokensAfter(stream, TOKENS_BETWEEN)
    if (stream.hasEnded || Number.isNaN(firstMs)) break
    const point = pointOf(stream.times, { tokens, from, sentMs, firstMs })
    if (point !== null) points.push(point)
  }
  leave.abort()
  await whole
  return points
}

interface Sent {
  readonly tokens: number
  /** Tokens of the stream before. */
  readonly from: number
  readonly sentMs: number
  readonly firstMs: number
}

function pointOf(times: readonly number[], sent: Sent): StallPoint | null {
  const { tokens, from, sentMs, firstMs } = sent
  const gaps = times.slice(1).map((atMs, i) => ({ atMs, ms: atMs - times[i]! }))
  const plain = medianOf(
    gaps
      .slice(0, from)
      .map(({ ms }) => ms)
      .slice(-40),
  )
  // The token that the stream got in the step of the first token may be read before or after that.
  const during = gaps.filter(({ atMs }) => atMs > sentMs && atMs <= firstMs + plain)
  const longest = Math.max(...during.map(({ ms }) => ms - plain))
  if (!(longest > 0)) return null
  const pieces = during.filter(({ ms }) => ms - plain >= LONG_SHARE * longest).length
  const ms = during.reduce((sum, gap) => sum + gap.ms - plain, 0)
  const ttftMs = firstMs - sentMs
  const overheadMs = Math.max(0, ttftMs - ms - (pieces + 0.5) * plain)
  return { tokens, ms: Math.max(ms, 1e-3), pieces, overheadMs, ttftMs }
}

async function tokensAfter(stream: Stream, count: number): Promise<void> {
  const wanted = stream.times.length + count
  while (stream.times.length < wanted && !stream.hasEnded)
    await new Promise((resolve) => setTimeout(resolve, 2))
}

/**
 * Several prompts at once: the time from the second of their first tokens to the last. The first prompt to arrive may be
 * computed before the others are there.
 */
export async function measureSpread(
  probe: StallProbe,
  tokens: number,
  requests: number,
): Promise<number> {
  const spreads: number[] = []
  for (let i = 0; i < probe.repeats; i++) {
    const replies = await Promise.all(
      Array.from({ length: requests }, () =>
        askLive(probe.target, { prompt: probe.promptOf(tokens), maxTokens: 2 }),
      ),
    )
    const firsts = replies.map(({ firstMs }) => firstMs).toSorted((a, b) => a - b)
    spreads.push(firsts.at(-1)! - firsts[1]!)
  }
  return medianOf(spreads)
}

/** How long a token took, of eight at a time; fewer than nine tokens are one such stretch. */
export function stepTimes(timesMs: readonly number[]): number[] {
  const steps: number[] = []
  const last = timesMs.length - 1
  for (let from = 0; from < last; from += STRETCH) {
    // What is left at the end belongs to the stretch before.
    const to = from + 2 * STRETCH > last ? last : from + STRETCH
    steps.push((timesMs[to]! - timesMs[from]!) / (to - from))
    if (to === last) break
  }
  return steps
}

export function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? NaN
}
