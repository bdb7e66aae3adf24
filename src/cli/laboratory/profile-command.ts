/**
 * `baton profile`: how long a running engine computes, measured from outside and fitted, for `--timing` of the laboratory.
 *
 * Prefill: prompts of several lengths that nothing has seen, one token each. Decode: several requests at once with
 * short and long contexts; the gap between tokens while all of them run. What a server adds (HTTP, tokenizer) is in it.
 */
import { seededRandom } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import { fitTiming } from '../../sim/index.ts'
import type { DecodePoint, FittedTiming, PrefillPoint } from '../../sim/index.ts'
import { serverUrl } from '../commands/ask-server.ts'
import type { Flags } from './lab-flags.ts'
import { textTable, writeText } from './lab-output.ts'
import { wholeOf } from './lab-pairs.ts'
import { parseTokenRange } from './live-prompt.ts'
import { askLive, firstLiveModel } from './live-request.ts'
import type { LiveTarget } from './live-request.ts'

interface Probe {
  readonly target: LiveTarget
  readonly range: readonly [number, number]
  readonly random: Random
  readonly repeats: number
}

const DECODE_TOKENS = 48
const SHORTEST_PROMPT = 16

export async function runProfile(url: string, flags: Flags): Promise<number> {
  const target = serverUrl(url)
  const apiKey = typeof flags['apiKey'] === 'string' ? { apiKey: flags['apiKey'] } : {}
  const model =
    typeof flags['model'] === 'string'
      ? flags['model']
      : await firstLiveModel(target, apiKey.apiKey)
  const probe: Probe = {
    target: { url: target, model, ...apiKey },
    range: parseTokenRange(String(flags['tokenRange'] ?? '300:1300')),
    random: seededRandom(wholeOf('--seed', flags['seed'] ?? 0)),
    repeats: wholeOf('--repeats', flags['repeats'] ?? 5, 1),
  }
  const promptMax = wholeOf('--max-prompt', flags['maxPrompt'] ?? 2048, SHORTEST_PROMPT)
  const requestsMax = wholeOf('--max-batch', flags['maxBatch'] ?? 8, 1)
  await askLive(probe.target, { prompt: promptOf(probe, SHORTEST_PROMPT), maxTokens: 4 })
  const prefill: PrefillPoint[] = []
  for (const tokens of doubling(SHORTEST_PROMPT, promptMax))
    prefill.push(await measurePrefill(probe, tokens))
  const decode: DecodePoint[] = []
  for (const requests of doubling(1, requestsMax))
    for (const context of [SHORTEST_PROMPT, Math.floor(promptMax / 2)])
      decode.push(await measureDecode(probe, requests, context))
  const fitted = fitTiming(prefill, decode)
  if (flags['quiet'] !== true) console.error(describe(fitted))
  const { timing, prefillError, decodeError } = fitted
  const file = {
    url: target,
    model,
    timing,
    prefillError,
    decodeError,
    prefill: fitted.prefill,
    decode: fitted.decode,
  }
  writeText(String(flags['out'] ?? '-'), `${JSON.stringify(file, null, 2)}\n`)
  return 0
}

async function measurePrefill(probe: Probe, tokens: number): Promise<PrefillPoint> {
  const times: number[] = []
  let counted = tokens
  for (let i = 0; i < probe.repeats; i++) {
    const startMs = performance.now()
    const reply = await askLive(probe.target, { prompt: promptOf(probe, tokens), maxTokens: 1 })
    times.push((Number.isNaN(reply.firstMs) ? performance.now() : reply.firstMs) - startMs)
    counted = reply.promptTokens || tokens
  }
  return { tokens: counted, ms: median(times) }
}

/** Gaps while all requests are decoding: from the last first token to the first end. */
async function measureDecode(
  probe: Probe,
  requests: number,
  context: number,
): Promise<DecodePoint> {
  const gaps: number[] = []
  for (let i = 0; i < Math.max(1, Math.ceil(probe.repeats / requests)); i++) {
    const times = Array.from({ length: requests }, (): number[] => [])
    await Promise.all(
      times.map((own) =>
        askLive(probe.target, {
          prompt: promptOf(probe, context),
          maxTokens: DECODE_TOKENS,
          onText: (atMs) => own.push(atMs),
        }),
      ),
    )
    const fromMs = Math.max(...times.map((own) => own[0] ?? 0))
    const untilMs = Math.min(...times.map((own) => own.at(-1) ?? 0))
    for (const own of times) {
      for (let k = 1; k < own.length; k++)
        if (own[k - 1]! >= fromMs && own[k]! <= untilMs) gaps.push(own[k]! - own[k - 1]!)
    }
  }
  const contextTokens = requests * (context + DECODE_TOKENS / 2)
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / Math.max(1, gaps.length)
  return { requests, contextTokens, ms: Math.max(mean, 1e-3) }
}

function promptOf({ range: [from, to], random }: Probe, tokens: number): number[] {
  return Array.from({ length: tokens }, () => from + Math.floor(random.next() * (to - from)))
}

/** `from`, twice that, … up to and with `to`. */
function doubling(from: number, to: number): number[] {
  const all: number[] = []
  for (let value = from; value < to; value *= 2) all.push(value)
  return [...all, to]
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? NaN
}

function describe({ timing, prefill, decode, prefillError, decodeError }: FittedTiming): string {
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
    `prefill ms = [${numbers(timing.prefill)}] · [1, tokens, tokens²]; error ${percent(prefillError[0])} on average, ${percent(prefillError[1])} at most`,
    `decode ms = [${numbers(timing.decode)}] · [1, requests, context tokens]; error ${percent(decodeError[0])} on average, ${percent(decodeError[1])} at most`,
  ].join('\n')
}
