/**
 * The conformance suite for prefix indexes: random event sequences, compared with the naive oracle after every step.
 *
 * Every implementation runs it. A script is plain data, so that a failing one can be shrunk and printed.
 */
import { chainSequence } from '../hash/block-hash.ts'
import type { KvEvent, KvTier } from '../events/kv-event.ts'
import { NaivePrefixIndex } from './naive-prefix-index.ts'
import type { PrefixIndex } from './prefix-index.ts'
import { PrefixMatches } from './prefix-matches.ts'

/** One step; numbers are taken modulo the number of items that exist. */
export interface ScriptStep {
  readonly kind: 'store' | 'remove' | 'clear' | 'leave'
  readonly holder: number
  readonly prompt: number
  readonly from: number
  readonly length: number
  /** Order of removal, and whether a store is sent as one event or block by block. */
  readonly order: number
  readonly tier: KvTier
}

export interface Script {
  /** Prompts as local hashes; a prompt may share the beginning of another one. */
  readonly prompts: readonly {
    readonly base: number
    readonly keep: number
    readonly tail: readonly number[]
  }[]
  readonly steps: readonly ScriptStep[]
  /** True: stores start at the beginning of a prompt. False: anywhere, so that parents are often unknown. */
  readonly isTidy: boolean
  /** Holders with an even number use their own engine hashes. */
  readonly hasEngineNames: boolean
  /** Whether statistics are compared after each step and not only at the end: they make the removals that wait. */
  readonly areStatsCompared: boolean
}

interface Prompt {
  readonly local: Uint32Array
  readonly sequence: Uint32Array
}

export const SCRIPT_HOLDERS = 5

function promptsOf(script: Script): Prompt[] {
  const prompts: number[][] = []
  for (const { base, keep, tail } of script.prompts) {
    const head = prompts.length === 0 ? [] : (prompts[base % prompts.length] ?? [])
    prompts.push([...head.slice(0, keep % (head.length + 1)), ...tail])
  }
  return prompts.map((blocks) => {
    const local = Uint32Array.from(blocks.flatMap((block) => [block, 7 * block + 1]))
    return { local, sequence: chainSequence(local, null) }
  })
}

/** An engine's own hash for a block: any injective mapping. */
function named(holder: number, hashes: Uint32Array): Uint32Array {
  return hashes.map((half) => (half ^ (0x5bd1e995 * (holder + 1))) >>> 0)
}

function* eventsOf(step: ScriptStep, prompt: Prompt, script: Script): Generator<KvEvent> {
  const { holder, tier } = step
  const blockCount = prompt.sequence.length >> 1
  const usesNames = script.hasEngineNames && holder % 2 === 0
  const names = usesNames ? named(holder, prompt.sequence) : prompt.sequence
  const from = script.isTidy && step.kind === 'store' ? 0 : step.from % (blockCount + 1)
  const to = Math.min(blockCount, from + step.length)
  if (step.kind === 'store') {
    const size = step.order % 2 === 0 ? Math.max(1, to - from) : 1 + (step.order % 3)
    for (let at = from; at < to; at += size) {
      const stop = Math.min(to, at + size)
      yield {
        kind: 'stored',
        parent: at === 0 ? null : [names[2 * at - 2] ?? 0, names[2 * at - 1] ?? 0],
        hashes: names.slice(2 * at, 2 * stop),
        localHashes: usesNames ? prompt.local.slice(2 * at, 2 * stop) : new Uint32Array(0),
        tier,
      }
    }
    return
  }
  const order = Array.from({ length: to - from }, (_, i) => from + i)
  if (step.order % 4 === 0) order.reverse()
  if (step.order % 4 === 1) order.sort((a, b) => ((a * 7 + step.order) % 11) - ((b * 7) % 11))
  const hashes = Uint32Array.from(order.flatMap((i) => [names[2 * i] ?? 0, names[2 * i + 1] ?? 0]))
  if (step.order % 5 !== 0) yield { kind: 'removed', hashes, tier }
  else {
    for (let i = 0; i < hashes.length; i += 2) {
      yield { kind: 'removed', hashes: hashes.slice(i, i + 2), tier }
    }
  }
}

function describeMatches(matches: PrefixMatches): string[] {
  return Array.from({ length: matches.count }, (_, i) => {
    const holder = matches.holders[i] ?? -1
    const depths = [matches.device[holder], matches.host[holder], matches.disk[holder]]
    return `${holder}: ${depths.join('+')}`
  }).sort()
}

export interface SuiteIndex {
  readonly index: PrefixIndex & { applyAll?(holder: number, events: readonly KvEvent[]): number }
  /** Throws if an invariant of the implementation is violated. */
  readonly check?: () => void
  /** The index evicts what does not fit into its memory: its results are at most those of the oracle. */
  readonly isForgetful?: boolean
}

/** Runs a script against index and oracle; throws an error that names the first difference. */
export function runScript(script: Script, create: () => SuiteIndex): void {
  const { index, check, isForgetful = false } = create()
  const oracle = new NaivePrefixIndex()
  const prompts = promptsOf(script)
  const [found, expected] = [new PrefixMatches(1), new PrefixMatches(1)]
  const compare = (what: string, a: unknown, b: unknown, at: string): void => {
    const [left, right] = [JSON.stringify(a), JSON.stringify(b)]
    if (left !== right) throw new Error(`${at}: ${what} is ${left}, the oracle says ${right}`)
  }
  const atMost = (at: string): void => {
    for (let i = 0; i < found.count; i++) {
      const holder = found.holders[i] ?? -1
      const most = expected.device[holder] ?? 0
      if ((found.device[holder] ?? 0) > most) throw new Error(`${at}: ${holder} has only ${most}`)
    }
  }
  const applyTo = (holder: number, event: KvEvent, at: string): void => {
    const outcome = index.apply(holder, event)
    const wanted = oracle.apply(holder, event)
    if (!isForgetful) compare('outcome', outcome, wanted, at)
  }
  const applyAllTo = (holder: number, events: readonly KvEvent[], at: string): void => {
    const refused = index.applyAll?.(holder, events)
    const outcomes = events.map((event) => oracle.apply(holder, event))
    const wanted = outcomes.filter((outcome) => outcome !== 'applied').length
    if (!isForgetful) compare('refused', refused, wanted, at)
  }
  script.steps.forEach((step, number) => {
    const prompt = prompts[step.prompt % prompts.length]
    if (prompt === undefined) return
    const at = `step ${number} (${step.kind})`
    if (step.kind === 'leave') {
      index.removeHolder(step.holder)
      oracle.removeHolder(step.holder)
    } else if (step.kind === 'clear') {
      applyTo(step.holder, { kind: 'cleared' }, at)
    } else {
      const events = [...eventsOf(step, prompt, script)]
      if (index.applyAll !== undefined && step.order % 7 < 3) applyAllTo(step.holder, events, at)
      else for (const event of events) applyTo(step.holder, event, at)
    }
    if (!isForgetful && script.areStatsCompared) {
      const [a, b] = [index.stats(), oracle.stats()]
      compare('entries, refused', [a.entries, a.refused], [b.entries, b.refused], at)
      if (a.blocks < b.blocks) throw new Error(`${at}: ${a.blocks} blocks kept of ${b.blocks}`)
    }
    prompts.forEach(({ sequence }, i) => {
      index.find(sequence, found)
      oracle.find(sequence, expected)
      if (isForgetful) atMost(at)
      else compare(`find(${i})`, describeMatches(found), describeMatches(expected), at)
    })
    check?.()
  })
  if (!isForgetful) {
    const [a, b] = [index.stats(), oracle.stats()]
    compare('entries, refused', [a.entries, a.refused], [b.entries, b.refused], 'the end')
  }
  for (let holder = 0; holder < SCRIPT_HOLDERS; holder++) index.removeHolder(holder)
  const { entries, blocks } = index.stats()
  compare('what is left', [entries, blocks], [0, 0], 'the end')
  check?.()
}
