/**
 * The clients of a chaos run: streams whose correct text is known. A client retries if its frontend was killed or
 * refused it before the first byte; any other end with a missing or different text counts as lost or wrong.
 */
import type { ChaosFleet } from './chaos-fleet.ts'

export interface Outcome {
  right: number
  wrong: number
  /** Streams that ended without their whole text although their frontend was alive. */
  lost: number
  retriedAfterKill: number
  refused: number
  /** The first failures of each kind, for the message. */
  readonly faults: string[]
}

interface Attempt {
  readonly status: number
  readonly text: string
  readonly isWhole: boolean
  readonly raw: string
}

const OUTPUT_TOKENS = 150
const ATTEMPT_MS = 90_000
const TRIES = 200
const FAULTS_KEPT = 8

export function promptOf(index: number): string {
  return `Story ${index}: ${'the brave fox lives in the forest '.repeat(1 + (index % 12))}`
}

/** Reads one stream until it ends in any way; `more` are additional fields of the body. */
export async function ask(
  url: string,
  prompt: string,
  more: Readonly<Record<string, unknown>> = {},
): Promise<Attempt> {
  let [raw, status] = ['', 0]
  try {
    const reply = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        prompt,
        max_tokens: OUTPUT_TOKENS,
        stream: true,
        ignore_eos: true,
        ...more,
      }),
      signal: AbortSignal.timeout(ATTEMPT_MS),
    })
    status = reply.status
    const decoder = new TextDecoder()
    if (reply.body !== null)
      for await (const bytes of reply.body) raw += decoder.decode(bytes, { stream: true })
  } catch (error) {
    raw += `\n(${String(error)})`
  }
  const isWhole = raw.trimEnd().endsWith('data: [DONE]') && raw.includes('"finish_reason":"length"')
  return { status, text: textOf(raw), isWhole, raw }
}

function textOf(raw: string): string {
  return [...raw.matchAll(/^data: (\{"id".*\})\r?$/gm)]
    .map((line) => {
      const { choices = [] } = JSON.parse(line[1] ?? '{}') as { choices?: { text?: string }[] }
      return choices.map(({ text = '' }) => text).join('')
    })
    .join('')
}

/** Runs all streams with limited concurrency. */
export async function runStreams(
  rights: readonly string[],
  concurrency: number,
  fleet: ChaosFleet,
): Promise<Outcome> {
  const outcome: Outcome = {
    right: 0,
    wrong: 0,
    lost: 0,
    retriedAfterKill: 0,
    refused: 0,
    faults: [],
  }
  let next = 0
  const client = async (): Promise<void> => {
    while (next < rights.length) {
      const index = next++
      await runStream(index, rights[index] ?? '', fleet, outcome)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, client))
  return outcome
}

async function runStream(
  index: number,
  right: string,
  fleet: ChaosFleet,
  outcome: Outcome,
): Promise<void> {
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const there = fleet.of('frontend')
    const member = there[(index + attempt) % Math.max(1, there.length)]
    if (member === undefined) {
      await again()
      continue
    }
    const { baton, url } = member
    const reply = await ask(url, promptOf(index))
    if (reply.isWhole && reply.text === right) {
      outcome.right += 1
      return
    }
    if (reply.isWhole || !right.startsWith(reply.text)) {
      outcome.wrong += 1
      keep(outcome, `wrong ${index}: ${reply.text.slice(0, 300)}`)
      return
    }
    if (reply.status === 503 || reply.status === 429 || reply.status === 529) outcome.refused += 1
    else if (fleet.wasKilled(baton)) outcome.retriedAfterKill += 1
    else {
      outcome.lost += 1
      keep(outcome, `lost ${index} at ${url}, ${reply.status}: ${reply.raw.slice(-400)}`)
      return
    }
    await again()
  }
  outcome.lost += 1
  keep(outcome, `lost ${index}: not served in ${TRIES} tries`)
}

function keep({ faults }: Outcome, text: string): void {
  if (faults.length < FAULTS_KEPT) faults.push(text)
}

async function again(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 100))
}
