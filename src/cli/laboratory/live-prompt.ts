/**
 * Prompts for a live server: the tokens of a trace in a range of ids that the model has, or as many common words.
 */
import { xxh3Text } from '../../kv/index.ts'
import { promptTokens } from '../../sim/index.ts'
import type { TraceRequest } from '../../sim/index.ts'
import { refusal, wholeOf } from './lab-pairs.ts'

export interface LivePrompts {
  /** `from` up to but not with `to`; null: words. */
  readonly range: readonly [from: number, to: number] | null
  /** Other numbers make other prompts of the same shape, so that one run does not find the cache of another. */
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
 * Blocks of every trace and workload are numbered from 0, so the numbers alone would give all loads the same prompts: a
 * load that follows another one on a server would find its cache. The same load with the same seed has the same prompts.
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

function mixed(id: number, salt: number): number {
  return (Math.imul(id + 1, 0x9e3779b1) ^ Math.imul(salt, 0x85ebca77)) >>> 0
}
