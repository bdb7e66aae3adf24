/**
 * Checks whether concurrent streams get each other's tokens: prompts whose replies are known from separate runs are
 * sent all at once.
 *
 * An engine may reply differently in a batch than alone (rounding), so a different reply is not a fault by itself. It
 * is a fault if it differs only where it equals the reply to another prompt.
 */
import type { GenerateRequest } from '../../request/index.ts'
import { ConcurrentReads } from './concurrent-reads.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { isRefused } from './refusal.ts'
import { PROMPTS, variantOf } from './several-prompts.ts'
import { thrownText } from './thrown-text.ts'

const TOKENS = 8

export async function checkMixed(subject: ConformanceSubject): Promise<void> {
  if (subject.isPrefill) {
    subject.report.skip('mixed', 'a prefill worker has one item only')
    return
  }
  const separate: string[][] = []
  for (let i = 0; i < PROMPTS; i++) {
    const first = await answer(subject, i)
    const again = await answer(subject, i)
    if (first === null || again === null) return
    if (first.join() !== again.join()) {
      subject.report.skip('mixed', 'the engine answers the same prompt in different ways')
      return
    }
    separate.push(first)
  }
  if (new Set(separate.map((items) => items.join())).size < PROMPTS) {
    subject.report.skip('mixed', 'different prompts get the same answer')
    return
  }
  const beside = new ConcurrentReads()
  const together = await Promise.all(separate.map((_, i) => answer(subject, i, beside)))
  for (const [i, items] of together.entries()) {
    if (items !== null && isOfOthers(items, i, separate)) {
      const text = `prompt ${i} got ${items.join(' ')}, alone it gets ${separate[i]?.join(' ')}`
      subject.report.fail('streams-mixed', text)
      return
    }
  }
}

/**
 * True if the reply equals another prompt's reply at every position where it differs; a single position may be
 * chance.
 */
function isOfOthers(items: readonly string[], own: number, separate: readonly string[][]): boolean {
  let places = 0
  const length = Math.max(items.length, separate[own]?.length ?? 0)
  for (let at = 0; at < length; at++) {
    if (items[at] === separate[own]?.[at]) continue
    const isAnothers = separate.some((other, i) => i !== own && other[at] === items[at])
    if (!isAnothers) return false
    // A reply that only ends earlier has nothing of another one.
    if (at < items.length) places++
  }
  return places > 1 || (places === 1 && length === 1)
}

/** Null: without an answer nothing can be compared, and the reason is reported. */
async function answer(
  subject: ConformanceSubject,
  which: number,
  beside?: ConcurrentReads,
): Promise<string[] | null> {
  const request = requestOf(subject, which)
  const outcome = await subject.read(request, beside === undefined ? {} : { beside })
  if (beside === undefined && isRefused(outcome)) {
    subject.report.skip('mixed', `the engine refuses another prompt: ${thrownText(outcome.error)}`)
    return null
  }
  if (!subject.judgePlain(outcome)) return null
  return outcome.chunks.flatMap(({ tokenIds, text = '' }) => [
    ...tokenIds.map(String),
    ...Array.from(text),
  ])
}

function requestOf(subject: ConformanceSubject, which: number): GenerateRequest {
  const tokenIds = variantOf(subject.request(TOKENS).tokenIds, which)
  const sampling = { temperature: 0, seed: 1 }
  // Its `prepareRequest` may derive more from the ids.
  return { ...subject.request(TOKENS, { tokenIds, sampling }), tokenIds }
}
