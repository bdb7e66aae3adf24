/**
 * Long prompts, one after the other.
 */
import { cpuMicros } from '../load/process-cpu.ts'
import type { Target } from '../load/targets.ts'
import { distinctText, prompt } from '../load/workloads.ts'

const TURNS = 40
const PREFIX_WORDS = 8000

let seeds = 500_000_000

async function ask(target: Target, ...contents: readonly string[]): Promise<void> {
  const messages = contents.map((content, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content,
  }))
  const reply = await fetch(`http://127.0.0.1:${target.port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: target.model, messages, max_tokens: 1 }),
  })
  const text = await reply.text()
  if (reply.status !== 200) throw new Error(`${target.name}: ${text.slice(0, 200)}`)
}

/** Prompts of words that are one token each, until the signal or up to a number; returns how many were answered. */
export async function sendLongPrompts(
  target: Target,
  words: number,
  signal: AbortSignal | null,
  most = Infinity,
): Promise<number> {
  let answered = 0
  while (signal?.aborted !== true && answered < most) {
    await ask(target, prompt(words, ++seeds))
    answered += 1
  }
  return answered
}

/**
 * CPU µs of the frontend per request of a conversation that starts with 8,000 words, of which only the last turn is
 * new.
 */
export async function conversation(target: Target): Promise<number> {
  const known = distinctText(PREFIX_WORDS, ++seeds)
  for (let turn = 0; turn < 10; turn++) await ask(target, known, 'yes', distinctText(20, ++seeds))
  const before = cpuMicros(target.pid)
  for (let turn = 0; turn < TURNS; turn++)
    await ask(target, known, 'yes', distinctText(20, ++seeds))
  return (cpuMicros(target.pid) - before) / TURNS
}
