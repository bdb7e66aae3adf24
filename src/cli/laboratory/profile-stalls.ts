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
  /** Of the prompt, as the server says. */
  readonly cachedTokens: number
}

export interface StallProbe {
  readonly target: LiveTarget
  readonly repeats: number
  readonly promptOf: (tokens: number) => number[]
}

/** When text came, and of how many tokens. */
export interface TokenEvent {
  readonly atMs: number
  readonly tokens: number
}

/** Events of the stream before the first prompt, and between two: from them is known how long a token takes alone. */
const EVENTS_BETWEEN = 9
const STREAM_TOKENS = 600
/** Tokens that are looked at together. */
const STRETCH = 8
/** Of the stream's past, for how long a token takes at the moment: its context grows. */
const CALMS = 5
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
    cachedTokens: middle(({ cachedTokens }) => cachedTokens),
  }
}

interface Stream {
  readonly events: TokenEvent[]
  /** Step times between prompts, the latest last. */
  readonly calm: number[]
  hasEnded: boolean
}

async function besideOneStream(
  probe: StallProbe,
  tokens: number,
  wanted: number,
): Promise<StallPoint[]> {
  const leave = new AbortController()
  const stream: Stream = { events: [], calm: [], hasEnded: false }
  const whole = askLive(probe.target, {
    prompt: probe.promptOf(16),
    maxTokens: STREAM_TOKENS,
    signal: leave.signal,
    onText: (atMs, tokensOfEvent) => stream.events.push({ atMs, tokens: tokensOfEvent }),
  })
    .catch(() => undefined)
    .finally(() => {
      stream.hasEnded = true
    })
  const points: StallPoint[] = []
  let asked = 0
  await calmStretch(stream)
  while (points.length < wanted && !stream.hasEnded) {
    // Anywhere in a step, as requests come.
    const stepMs = medianOf(stream.calm.slice(-CALMS)) || 0
    await new Promise((resolve) => setTimeout(resolve, stepMs * shareOfStep(asked++)))
    const sentMs = performance.now()
    const { firstMs, cachedTokens } = await askLive(probe.target, {
      prompt: probe.promptOf(tokens),
      maxTokens: 1,
    })
    const plain = medianOf(stream.calm.slice(-CALMS))
    await calmStretch(stream)
    if (stream.hasEnded || Number.isNaN(firstMs)) break
    const point = pointOf(stream.events, { tokens, plain, sentMs, firstMs })
    if (point !== null) points.push({ ...point, cachedTokens })
  }
  leave.abort()
  await whole
  return points
}

/**
 * How far into a step the n-th prompt is sent: however many there are, evenly over the whole of it (the golden ratio). What a prompt
 * waits for the end of the step under way counts as half a step, so it has to be half a step in the middle of all.
 */
export function shareOfStep(n: number): number {
  return (n * 0.618_033_988_749_895) % 1
}

export interface Sent {
  readonly tokens: number
  /** How long a token of the stream takes without the prompt. */
  readonly plain: number
  readonly sentMs: number
  readonly firstMs: number
}

/** Null: nothing was held up. */
export function pointOf(
  events: readonly TokenEvent[],
  sent: Sent,
): Omit<StallPoint, 'cachedTokens'> | null {
  const { tokens, plain, sentMs, firstMs } = sent
  // What a gap has more than its tokens take, when nobody else is there.
  const gaps = events.slice(1).map((event, i) => ({
    atMs: event.atMs,
    ms: event.atMs - events[i]!.atMs - event.tokens * plain,
  }))
  // The token that the stream got in the step of the first token may be read before or after that.
  const during = gaps.filter(({ atMs }) => atMs > sentMs && atMs <= firstMs + plain)
  const longest = Math.max(...during.map(({ ms }) => ms))
  if (!(longest > 0)) return null
  const pieces = during.filter(({ ms }) => ms >= LONG_SHARE * longest).length
  const ms = during.reduce((sum, gap) => sum + gap.ms, 0)
  const ttftMs = firstMs - sentMs
  const overheadMs = Math.max(0, ttftMs - ms - (pieces + 0.5) * plain)
  return { tokens, ms: Math.max(ms, 1e-3), pieces, overheadMs, ttftMs }
}

/** Waits for some events with nobody else there. The first of them may end what held the stream up: gaps count behind it. */
async function calmStretch(stream: Stream): Promise<void> {
  const from = stream.events.length
  const wanted = from + EVENTS_BETWEEN
  while (stream.events.length < wanted && !stream.hasEnded)
    await new Promise((resolve) => setTimeout(resolve, 2))
  stream.calm.push(...stepTimes(stream.events.slice(from)))
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

/**
 * How long a token took, of eight or a few more at a time (fewer than nine are one such stretch): tokens of short steps come
 * together, in one event or in several, so that a single gap says nothing.
 */
export function stepTimes(events: readonly TokenEvent[]): number[] {
  const steps: number[] = []
  let left = events.slice(1).reduce((sum, { tokens }) => sum + tokens, 0)
  let [fromMs, tokens] = [events[0]?.atMs ?? 0, 0]
  for (const event of events.slice(1)) {
    tokens += event.tokens
    left -= event.tokens
    // What is left at the end belongs to the stretch before.
    if (left > 0 && (tokens < STRETCH || left < STRETCH)) continue
    steps.push((event.atMs - fromMs) / tokens)
    ;[fromMs, tokens] = [event.atMs, 0]
  }
  return steps
}

export function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? NaN
}
