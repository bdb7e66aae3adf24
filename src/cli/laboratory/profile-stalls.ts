/**
 * Measures how long an engine computes a prompt, without the time of HTTP, tokenizer and router: by the delay
 * that the prompt causes in another stream.
 *
 * One stream runs, and a prompt that is not cached is sent beside it. The gaps of the stream grow by the time
 * that the engine computes the prompt: one long gap per chunk. The rest of the time to the first token is
 * overhead.
 */
import { medianOf } from '../../base/index.ts'
import type { LiveTarget } from '../live/live-connection.ts'
import { askLive } from '../live/live-request.ts'
import type { ProbePrompt } from './probe-prompts.ts'

export interface StallPoint {
  readonly tokens: number
  /** Milliseconds of the engine's computation, without the tokens of the stream that it generated meanwhile. */
  readonly ms: number
  /** Number of steps in which the engine computed the prompt. */
  readonly pieces: number
  /** Milliseconds outside the engine, without the wait for the end of the current step. */
  readonly overheadMs: number
  readonly ttftMs: number
  /** Cached tokens of the prompt, as the server reports. */
  readonly cachedTokens: number
}

export interface StallProbe {
  readonly target: LiveTarget
  readonly repeats: number
  readonly promptOf: (tokens: number) => ProbePrompt
}

/** When an event with text arrived, and how many tokens it held. */
export interface TokenEvent {
  readonly atMs: number
  readonly tokens: number
}

/**
 * Number of events before the first prompt and between two prompts; they show the time of a token without a
 * prompt.
 */
const EVENTS_BETWEEN = 9
const STREAM_TOKENS = 600
/** On a busy machine a stream may end before the prompt beside it is computed. */
const TRIES_MIN = 6
/** Number of tokens whose gaps are averaged together. */
const STRETCH = 8
/**
 * The latest measurements that determine the current time of a token, which grows with the stream's context.
 */
const CALMS = 5
/** A gap belongs to the prompt when it is at least this share of the longest gap. */
const LONG_SHARE = 0.4

/** Null: the stream gave too few tokens to measure. */
export async function measureStall(probe: StallProbe, tokens: number): Promise<StallPoint | null> {
  const seen: StallPoint[] = []
  // One stream is long enough for several prompts, but not for all of them.
  const triesMax = Math.max(TRIES_MIN, 2 * probe.repeats)
  for (let tries = 0; tries < triesMax && seen.length < probe.repeats; tries++)
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
  /** Times of a step between prompts in ms, the latest last. */
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
  try {
    let asked = 0
    await calmStretch(stream)
    while (points.length < wanted && !stream.hasEnded) {
      // The prompt is sent at any phase of a step, as real requests are.
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
  } finally {
    // Also after a refused prompt, because the stream must not run during the next measurement.
    leave.abort()
    await whole
  }
  return points
}

/**
 * The phase of a step, 0 to 1, at which the n-th prompt is sent: evenly distributed for any number of prompts
 * (golden ratio). The wait for the end of the current step is counted as half a step, so it has to be half a
 * step on average.
 */
export function shareOfStep(n: number): number {
  return (n * 0.618_033_988_749_895) % 1
}

export interface Sent {
  readonly tokens: number
  /** Milliseconds per token of the stream without a prompt. */
  readonly plain: number
  readonly sentMs: number
  readonly firstMs: number
}

/** Null: the stream was not delayed. */
export function pointOf(
  events: readonly TokenEvent[],
  sent: Sent,
): Omit<StallPoint, 'cachedTokens'> | null {
  const { tokens, plain, sentMs, firstMs } = sent
  // How much longer a gap is than its tokens take without other requests.
  const gaps = events.slice(1).map((event, i) => ({
    fromMs: events[i]!.atMs,
    atMs: event.atMs,
    ms: event.atMs - events[i]!.atMs - event.tokens * plain,
  }))
  // The stream's token of the step that computed the first token may be read before or after that first token: every gap
  // counts that has begun by then. A gap without a prompt adds nothing.
  const during = gaps.filter(({ fromMs, atMs }) => atMs > sentMs && fromMs <= firstMs)
  const longest = Math.max(...during.map(({ ms }) => ms))
  if (!(longest > 0)) return null
  const pieces = during.filter(({ ms }) => ms >= LONG_SHARE * longest).length
  const ms = during.reduce((sum, gap) => sum + gap.ms, 0)
  const ttftMs = firstMs - sentMs
  const overheadMs = Math.max(0, ttftMs - ms - (pieces + 0.5) * plain)
  return { tokens, ms: Math.max(ms, 1e-3), pieces, overheadMs, ttftMs }
}

/**
 * Waits for some events without other requests. The first may still include an earlier delay, so gaps count
 * from the second.
 */
async function calmStretch(stream: Stream): Promise<void> {
  const from = stream.events.length
  const wanted = from + EVENTS_BETWEEN
  while (stream.events.length < wanted && !stream.hasEnded)
    await new Promise((resolve) => setTimeout(resolve, 2))
  stream.calm.push(...stepTimes(stream.events.slice(from)))
}

/**
 * Sends several prompts at once and returns the time from the second of their first tokens to the last. The
 * first prompt to arrive may be computed before the others are there, so it does not count.
 */
export async function measureSpread(
  probe: StallProbe,
  tokens: number,
  requests: number,
): Promise<number> {
  const spreads: number[] = []
  for (let i = 0; i < probe.repeats; i++) {
    const replies = await allAnswers(
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
 * Like `Promise.all`, but a refusal is thrown only when the others have ended too, so that none runs during the next
 * measurement.
 */
export async function allAnswers<T>(answers: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(answers)
  return await Promise.all(answers)
}

/**
 * The mean time of a token, over groups of eight or a few more tokens (fewer than nine form one group). Tokens
 * of short steps arrive together, in one event or in several, so a single gap is meaningless.
 */
export function stepTimes(events: readonly TokenEvent[]): number[] {
  const steps: number[] = []
  let left = events.slice(1).reduce((sum, { tokens }) => sum + tokens, 0)
  let [fromMs, tokens] = [events[0]?.atMs ?? 0, 0]
  for (const event of events.slice(1)) {
    tokens += event.tokens
    left -= event.tokens
    // The remainder at the end belongs to the group before it.
    if (left > 0 && (tokens < STRETCH || left < STRETCH)) continue
    steps.push((event.atMs - fromMs) / tokens)
    ;[fromMs, tokens] = [event.atMs, 0]
  }
  return steps
}
