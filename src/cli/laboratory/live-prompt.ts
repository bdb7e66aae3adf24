/**
 * Makes prompts for a live server: the trace's tokens mapped to a range of ids that the model has, or as many
 * common words.
 */
import { randomInt } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import { xxh3Text } from '../../kv/index.ts'
import { promptTokens } from '../../sim/index.ts'
import type { TraceRequest } from '../../sim/index.ts'
import { refusal, wholeOf } from './lab-pairs.ts'

export interface LivePrompts {
  /** Token ids from `from` (inclusive) to `to` (exclusive); null: words. */
  readonly range: readonly [from: number, to: number] | null
  /**
   * A different salt makes different prompts of the same shape, so that a run does not hit the cache of an
   * earlier one.
   */
  readonly salt: number
}

const WORDS =
  'the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were we when your can said there use an each which she do how their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people my than first water been call who its now find long down day did get come made may part'.split(
    ' ',
  )

export function parseTokenRange(given: string): readonly [number, number] {
  const [from, to] = given.split(':').map((part) => wholeOf('--token-range', part))
  if (from !== undefined && to !== undefined && to - from >= 2) return [from, to]
  throw refusal('--token-range', `'${given}' is invalid: expected from:to`)
}

/**
 * The blocks of every trace and workload are numbered from 0, so without a salt all loads would have the same
 * prompts, and a load would hit the cache that an earlier load left on the server. The same load with the same
 * seed has the same prompts.
 */
export function promptSalt(load: unknown, seed: number, run: number): number {
  return xxh3Text(JSON.stringify([load, seed, run]))[0] | 1
}

export function livePrompt(request: TraceRequest, prompts: LivePrompts): number[] | string {
  const { range, salt } = prompts
  const ids = promptTokens(request)
  if (range === null)
    return Array.from(ids, (id) => WORDS[mixed(id, salt) % WORDS.length]).join(' ')
  const [from, to] = range
  return Array.from(ids, (id) => from + (mixed(id, salt) % (to - from)))
}

export function randomWords(random: Random, count: number): string {
  return Array.from({ length: count }, () => WORDS[randomInt(random, WORDS.length)]).join(' ')
}

function mixed(id: number, salt: number): number {
  return (Math.imul(id + 1, 0x9e3779b1) ^ Math.imul(salt, 0x85ebca77)) >>> 0
}
