/**
 * `baton profile`: measures from outside how long a running engine computes, and fits a model of it for
 * `--timing` of the laboratory.
 *
 * Prefill: prompts of several lengths that the cache does not hold are sent, and the delay that they cause in
 * another stream is measured; the rest of the time to the first token is the server's overhead. Decode: several
 * requests run at once with short and long contexts, and the gap between tokens is measured while all of them
 * run. The profile also records whether the engine computes prompts together or one after the other, and the
 * chunk size in tokens.
 */
import { BatonError, medianOf, randomInt, seededRandom } from '../../base/index.ts'
import { osRandom } from '../../os/index.ts'
import { createSimTiming } from '../../simengine/index.ts'
import { enginePaceOf, fitOverhead, fitTiming } from '../../sim/index.ts'
import type { DecodePoint, FittedTiming, RequestOverhead } from '../../sim/index.ts'
import { serverUrl } from '../commands/ask-server.ts'
import { apiKeyOf } from './lab-flags.ts'
import type { Flags } from './lab-flags.ts'
import { checkOutputs, textTable, writeText } from './lab-output.ts'
import { wholeOf } from './lab-pairs.ts'
import { parseTokenRange } from './live-prompt.ts'
import { firstLiveModel } from '../live/live-connection.ts'
import type { LiveTarget } from '../live/live-connection.ts'
import { askLive } from '../live/live-request.ts'
import { promptsOfIds, promptsOfWords } from './probe-prompts.ts'
import type { ProbePrompt, ProbePrompts } from './probe-prompts.ts'
import { allAnswers, measureSpread, measureStall, stepTimes } from './profile-stalls.ts'
import type { StallPoint, StallProbe, TokenEvent } from './profile-stalls.ts'

interface ProfiledSchedule {
  readonly promptsPerStep: number | null
  readonly promptChunk: number | null
}

interface Probe {
  readonly target: LiveTarget
  readonly prompts: ProbePrompts
  readonly repeats: number
}

const DECODE_TOKENS = 48
/** At least this many, whatever the number of concurrent requests. */
const DECODE_ROUNDS_MIN = 3
const SHORTEST_PROMPT = 16
/** Long enough to fill blocks of a cache. */
const FIRST_PROMPT = 64
const CELLS_STEP = 256
/** Prompts that are sent at once to see whether the engine computes them together. */
const TOGETHER = 4
const HELD_UP_SHARE = 0.3
/** Mean relative error above which a profile is not trusted. On quiet machines it is below 0.05. */
const ERROR_MAX = 0.15
/**
 * A server may have this share of any prompt cached (for example its first tokens) without invalidating the
 * measurement.
 */
const KNOWN_SHARE = 0.5

export async function runProfile(url: string, flags: Flags): Promise<number> {
  checkOutputs(flags, 'out')
  const target = serverUrl(url, '<url>')
  // With a fixed seed the engine could have the prompts of an earlier run in its cache.
  const seed = wholeOf('--seed', flags['seed'] ?? randomInt(osRandom, 2 ** 31))
  const probe = await probeOf(target, seed, flags)
  const promptMax = wholeOf('--max-prompt', flags['maxPrompt'] ?? 2048, SHORTEST_PROMPT)
  const requestsMax = wholeOf('--max-batch', flags['maxBatch'] ?? 8, 1)
  const promptOf = (tokens: number): ProbePrompt => probe.prompts.ofTokens(tokens)
  const first = await askLive(probe.target, { prompt: promptOf(FIRST_PROMPT), maxTokens: 4 })
  refuseKnownPrompts([{ tokens: FIRST_PROMPT, cachedTokens: first.cachedTokens }], seed)
  const asStallProbe = { ...probe, promptOf }
  const { stalls, longest } = await measureStalls(asStallProbe, promptMax)
  refuseKnownPrompts(stalls, seed)
  if (stalls.length === 0)
    throw new BatonError('backend.unknown', `${target} gives too few tokens to measure its steps`)
  const contextMax = Math.floor(longest / 2)
  const decode = await measureDecodes(probe, requestsMax, contextMax)
  const isApart = wasHeldUp(stalls)
  const schedule = isApart
    ? await scheduleOf(asStallProbe, stalls)
    : { promptsPerStep: null, promptChunk: null }
  const points = stalls.map((stall) => ({
    ...stall,
    ms: isApart ? stall.ms : stall.ttftMs,
    // The gaps of short prompts are unreliable: a late event looks like a chunk.
    pieces: Math.ceil(stall.tokens / (schedule.promptChunk ?? Infinity)) || 1,
  }))
  const fitted = fitTiming(points, decode)
  const foundTokenMs = isApart ? await measureFound(probe, contextMax, fitted.timing) : 0
  const overhead = isApart ? fitOverhead(points) : { requestMs: 0, msPerToken: 0 }
  if (!isApart)
    console.error(
      'prompts did not delay the other stream: are there several engines behind this URL? The prefill times include HTTP and tokenization',
    )
  if (flags['quiet'] !== true) {
    console.error(describe(stalls, fitted, overhead, schedule))
    console.error(`cached prompt tokens: ${foundTokenMs.toPrecision(3)} ms per token`)
  }
  warnOfError(fitted)
  const { prefillError, decodeError, prefill } = fitted
  const file = {
    url: target,
    model: probe.target.model,
    seed,
    timing: { ...fitted.timing, foundTokenMs },
    overhead,
    pace: enginePaceOf(fitted, overhead),
    schedule,
    prefillError,
    decodeError,
    prefill,
    decode: fitted.decode,
  }
  writeText(String(flags['out'] ?? '-'), `${JSON.stringify(file, null, 2)}\n`)
  return 0
}

async function probeOf(url: string, seed: number, flags: Flags): Promise<Probe> {
  const apiKey = apiKeyOf(flags)
  const model =
    typeof flags['model'] === 'string' ? flags['model'] : await firstLiveModel(url, apiKey.apiKey)
  const target: LiveTarget = { url, model, isChat: flags['chat'] === true, ...apiKey }
  const random = seededRandom(seed)
  const range = parseTokenRange(String(flags['tokenRange'] ?? '300:1300'))
  const isOfWords = flags['text'] === true || flags['chat'] === true
  return {
    target,
    prompts: isOfWords ? await promptsOfWords(target, random) : promptsOfIds(range, random),
    repeats: wholeOf('--repeats', flags['repeats'] ?? 7, 1),
  }
}

/** Steps of more and more requests, with a short and a long context, until the server refuses. */
async function measureDecodes(
  probe: Probe,
  requestsMax: number,
  contextMax: number,
): Promise<readonly DecodePoint[]> {
  const measured: DecodePoint[] = []
  for (const context of contextsUpTo(contextMax)) {
    // The same prompts in each round: an engine with a cache need not compute them again.
    const prompts = Array.from({ length: requestsMax }, () => probe.prompts.ofTokens(context))
    for (const requests of batchesUpTo(requestsMax)) {
      const point = await decodeOrRefusal(probe, prompts.slice(0, requests), context)
      if (point instanceof BatonError && measured.length === 0) throw point
      if (point instanceof BatonError) {
        console.error(
          `${requests} requests with ${context} tokens each are refused (${point.message})`,
        )
        break
      }
      measured.push(point)
    }
  }
  return measured
}

function warnOfError({ prefillError, decodeError }: FittedTiming): void {
  const error = Math.max(prefillError[0], decodeError[0])
  if (error <= ERROR_MAX) return
  console.error(
    `the measurements differ from the model by ${(100 * error).toFixed(0)} % on average: is the machine busy? Measure when it is quiet, or with more --repeats`,
  )
}

/**
 * Measures longer and longer prompts up to the longest that the server accepts; earlier measurements are kept
 * when one is refused.
 */
async function measureStalls(
  probe: StallProbe,
  promptMax: number,
): Promise<{ readonly stalls: readonly StallPoint[]; readonly longest: number }> {
  const stalls: StallPoint[] = []
  let longest = SHORTEST_PROMPT
  const measure = async (tokens: number): Promise<BatonError | null> => {
    try {
      const stall = await measureStall(probe, tokens)
      if (stall !== null) stalls.push(stall)
      longest = tokens
      return null
    } catch (thrown) {
      // Some servers answer a prompt that is too long with 500.
      if (stalls.length === 0) throw thrown
      return BatonError.from(thrown)
    }
  }
  for (const tokens of doubling(SHORTEST_PROMPT, promptMax)) {
    const refusal = await measure(tokens)
    if (refusal === null) continue
    // The longest requested prompt may fill the server's whole context, without room for an answer.
    const shorter = promptMax - SHORTEST_PROMPT
    if (tokens === promptMax && shorter > longest) await measure(shorter)
    console.error(
      `a prompt of ${tokens} tokens is refused (${refusal.message}): the longest measured prompt has ${longest} tokens`,
    )
    break
  }
  return { stalls, longest }
}

/** Throws when the server had the prompts in its cache, because cached tokens are not computed. */
function refuseKnownPrompts(
  prompts: readonly Pick<StallPoint, 'tokens' | 'cachedTokens'>[],
  seed: number,
): void {
  const known = prompts.find(({ tokens, cachedTokens }) => cachedTokens > KNOWN_SHARE * tokens)
  if (known === undefined) return
  const text = `the server has the prompts of seed ${seed} in its cache (${known.cachedTokens} of ${known.tokens} tokens): omit --seed, or give another one`
  throw new BatonError('config.invalid', text)
}

/**
 * The time of a step while all requests are decoding: from the last first token to the first end.
 *
 * It is the median of several means: tokens of short steps may arrive together, so a single gap is meaningless,
 * and other load on the machine only ever adds time.
 */
async function measureDecode(
  { target, repeats }: Probe,
  prompts: readonly ProbePrompt[],
  context: number,
): Promise<DecodePoint> {
  const steps: number[] = []
  const requests = prompts.length
  for (let i = 0; i < Math.max(DECODE_ROUNDS_MIN, Math.ceil(repeats / requests)); i++) {
    const streams = prompts.map((prompt) => ({ prompt, events: [] as TokenEvent[] }))
    await allAnswers(
      streams.map(({ prompt, events }) =>
        askLive(target, {
          prompt,
          maxTokens: DECODE_TOKENS,
          onText: (atMs, tokens) => events.push({ atMs, tokens }),
        }),
      ),
    )
    const fromMs = Math.max(...streams.map(({ events }) => events[0]?.atMs ?? 0))
    const untilMs = Math.min(...streams.map(({ events }) => events.at(-1)?.atMs ?? 0))
    for (const { events } of streams)
      steps.push(...stepTimes(events.filter(({ atMs }) => atMs >= fromMs && atMs <= untilMs)))
  }
  const contextTokens = requests * (context + DECODE_TOKENS / 2)
  return { requests, contextTokens, ms: Math.max(medianOf(steps) || 0, 1e-3) }
}

async function decodeOrRefusal(
  probe: Probe,
  prompts: readonly ProbePrompt[],
  context: number,
): Promise<DecodePoint | BatonError> {
  try {
    return await measureDecode(probe, prompts, context)
  } catch (thrown) {
    return BatonError.from(thrown)
  }
}

/** `from`, twice that, and so on, up to and including `to`. */
function doubling(from: number, to: number): number[] {
  const all: number[] = []
  for (let value = from; value < to; value *= 2) all.push(value)
  return [...all, to]
}

/**
 * A short and a long context for the decode measurement. Where possible they lie in the middle of llama.cpp's
 * KV steps of 256 cells, which it processes as a whole: at the start of a step a token would seem to cost half
 * a step too much.
 */
function contextsUpTo(most: number): readonly [short: number, long: number] {
  if (most < CELLS_STEP) return [Math.min(SHORTEST_PROMPT, most), most]
  const middle = (CELLS_STEP - DECODE_TOKENS) / 2
  return [middle, Math.floor(most / CELLS_STEP) * CELLS_STEP + middle]
}

/**
 * Small batch sizes nearly one by one, because an engine may switch its method of computing from one size to
 * the next.
 */
function batchesUpTo(most: number): number[] {
  const sizes = new Set([...doubling(1, most), ...[3, 6].filter((size) => size < most)])
  return [...sizes].toSorted((a, b) => a - b)
}

/**
 * True when another stream was delayed while a long prompt was computed; this needs both to run in one engine.
 */
function wasHeldUp(stalls: readonly StallPoint[]): boolean {
  const { ms, ttftMs } = stalls.at(-1)!
  return ms > HELD_UP_SHARE * ttftMs
}

/**
 * Milliseconds per cached prompt token, beyond what is computed: an engine may copy that KV. 0 when the server
 * does not report cached tokens.
 */
async function measureFound(
  probe: Probe,
  tokens: number,
  timing: FittedTiming['timing'],
): Promise<number> {
  const known = probe.prompts.ofTokens(tokens)
  await askLive(probe.target, { prompt: known, maxTokens: 1 })
  const promptOf = (): ProbePrompt => probe.prompts.longer(known, SHORTEST_PROMPT)
  const stall = await measureStall({ ...probe, promptOf }, tokens + SHORTEST_PROMPT)
  const found = stall?.cachedTokens ?? 0
  if (stall === null || found === 0) return 0
  const computedMs = createSimTiming(timing).prefillMs({
    requests: 1,
    meanPromptTokens: stall.tokens,
    meanPrefixTokens: found,
  })
  return Math.max(0, (stall.ms - computedMs) / found)
}

/**
 * How the engine schedules prompts, as far as it can be observed: one after the other or together, and the
 * chunk size.
 */
async function scheduleOf(
  probe: StallProbe,
  stalls: readonly StallPoint[],
): Promise<ProfiledSchedule> {
  const longest = stalls.at(-1)!
  // Short enough that a step has room for all of them, long enough to be measured.
  const short = stalls.findLast(({ tokens }) => tokens <= longest.tokens / TOGETHER) ?? longest
  // A server that refuses several concurrent requests does not compute prompts together.
  const spreadMs = await measureSpread(probe, short.tokens, TOGETHER).catch(() => 0)
  const { tokens, pieces } = longest
  return {
    // When four prompts are computed one after the other, the last first token comes two prompts after the
    // second.
    promptsPerStep: spreadMs > ((TOGETHER - 2) / 2) * short.ms ? 1 : null,
    promptChunk: pieces > 1 ? Math.ceil(tokens / pieces / 16) * 16 : null,
  }
}

function describe(
  stalls: readonly StallPoint[],
  { timing, prefill, decode, prefillError, decodeError }: FittedTiming,
  { requestMs, msPerToken }: RequestOverhead,
  { promptsPerStep, promptChunk }: ProfiledSchedule,
): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const row = (name: string, measured: number, fitted: number): string[] => [
    name,
    measured.toFixed(2),
    fitted.toFixed(2),
    percent(fitted / measured - 1),
  ]
  const rows = [
    ...prefill.map(({ tokens, measuredMs, fittedMs }) =>
      row(`prompt of ${tokens}`, measuredMs, fittedMs),
    ),
    ...decode.map(({ requests, contextTokens, measuredMs, fittedMs }) =>
      row(`step of ${requests} with ${contextTokens} tokens`, measuredMs, fittedMs),
    ),
  ]
  const numbers = (values: readonly number[]): string =>
    values.map((value) => value.toPrecision(4)).join(', ')
  return [
    textTable(['', 'measured ms', 'fitted ms', 'error'], rows),
    `prefill ms = [${numbers(timing.prefill)}] · [steps, tokens, tokens²]; error ${percent(prefillError[0])} on average, ${percent(prefillError[1])} at most`,
    `decode ms = ${timing.decodeSteps?.x.map((requests, i) => `${timing.decodeSteps?.y[i]?.toPrecision(4)} with ${requests}`).join(', ')} requests, and ${timing.decode[2].toPrecision(4)} per token of their contexts; error ${percent(decodeError[0])} on average, ${percent(decodeError[1])} at most`,
    `overhead ms = [${numbers([requestMs, msPerToken])}] · [1, tokens]; measured ${stalls.map(({ tokens, overheadMs }) => `${overheadMs.toFixed(1)} with ${tokens}`).join(', ')}`,
    `prompts are computed ${promptsPerStep === 1 ? 'one after the other' : 'together'}, ${promptChunk === null ? 'each in one step' : `in chunks of ${promptChunk} tokens`}`,
  ].join('\n')
}
