import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { chainSequence } from '../hash/block-hash.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'
import { hashesFromBigints, hashPairOf } from '../hash/hash-pair.ts'
import { HolderTable } from './holder-table.ts'
import type { KvEvent } from '../events/kv-event.ts'
import { NaivePrefixIndex } from '../prefix/naive-prefix-index.ts'
import type { ApplyOutcome, PrefixIndex } from '../prefix/prefix-index.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'

type Step =
  | ['query', number[], Record<string, number> | null]
  | ['stored', number, number, number | null, number[], number[], string]
  | ['removed', number, number, number[], string]
  | ['cleared', number, number]
  | ['remove_worker', number]

interface DynamoStored {
  readonly parent_hash: number | null
  readonly blocks: readonly { readonly block_hash: number; readonly tokens_hash: number }[]
}

interface DynamoStep {
  readonly op: 'find_matches' | 'apply_event' | 'remove_worker' | 'clear_all_blocks'
  readonly args: readonly unknown[]
  readonly result?: { readonly scores: readonly [[number, number], number][] } | null
}

interface Vectors {
  readonly hashes: readonly string[]
  readonly scripts: readonly { script: number; kind: string; steps: readonly Step[] }[]
  readonly radixTree: readonly { name: string; steps: readonly DynamoStep[] }[]
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/kv-events.json', import.meta.url), 'utf8'),
) as Vectors

const pairs = (places: readonly number[]): Uint32Array =>
  hashesFromBigints(places.map((place) => BigInt(vectors.hashes[place] ?? '0')))

/** Drives an index by worker and rank. */
class Fleet {
  readonly #table = new HolderTable()
  readonly #matches = new PrefixMatches(1)
  readonly #index: PrefixIndex

  constructor(index: PrefixIndex) {
    this.#index = index
  }

  apply(worker: number, rank: number, event: KvEvent): ApplyOutcome {
    return this.#index.apply(this.#table.intern(workerIdOf(worker), rank), event)
  }

  leave(worker: number): void {
    for (const holder of this.#table.ofWorker(workerIdOf(worker))) {
      this.#index.removeHolder(holder)
      this.#table.release(holder)
    }
  }

  scores(localHashes: Uint32Array): Record<string, number> {
    const matches = this.#matches
    this.#index.find(chainSequence(localHashes, null), matches)
    return Object.fromEntries(
      Array.from({ length: matches.count }, (_, i) => {
        const holder = matches.holders[i] ?? -1
        const name = `${this.#table.workerOf(holder)}/${this.#table.rankOf(holder)}`
        return [name, matches.device[holder] ?? 0]
      }),
    )
  }
}

const IMPLEMENTATIONS: readonly [string, () => PrefixIndex][] = [
  ['EventPrefixIndex', () => new EventPrefixIndex({ blocksMax: 4096 })],
  ['NaivePrefixIndex', () => new NaivePrefixIndex()],
]
const none = new Uint32Array(0)

describe.each(IMPLEMENTATIONS)('%s on recorded events', (_name, create) => {
  it.each([true, false])(
    'recorded scripts - same scores as recorded (local hashes sent: %s)',
    (hasLocal) => {
      for (const { script, steps } of vectors.scripts) {
        const fleet = new Fleet(create())
        steps.forEach((step, number) => {
          const at = `script ${script}, step ${number}: ${step[0]}`
          if (step[0] === 'query') {
            if (step[2] !== null) expect(fleet.scores(pairs(step[1])), at).toEqual(step[2])
          } else if (step[0] === 'stored') {
            const [, worker, rank, parent, hashes, local, result] = step
            const outcome = fleet.apply(worker, rank, {
              kind: 'stored',
              parent: parent === null ? null : hashPairOf(BigInt(vectors.hashes[parent] ?? '0')),
              hashes: pairs(hashes),
              localHashes: hasLocal ? pairs(local) : none,
              tier: 'device',
            })
            const expected = result === 'ok' ? 'applied' : 'parent-not-found'
            expect(outcome, at).toBe(expected)
          } else if (step[0] === 'removed') {
            const [, worker, rank, hashes] = step
            fleet.apply(worker, rank, { kind: 'removed', hashes: pairs(hashes), tier: 'device' })
          } else if (step[0] === 'cleared') fleet.apply(step[1], step[2], { kind: 'cleared' })
          else fleet.leave(step[1])
        })
      }
    },
  )

  it.each(vectors.radixTree)('$name - engine hashes give the recorded scores', ({ steps }) => {
    const fleet = new Fleet(create())
    const small = (values: readonly number[]): Uint32Array => hashesFromBigints(values.map(BigInt))
    for (const { op, args, result } of steps) {
      const worker = args[0] as number
      if (op === 'find_matches') {
        const expected = (result?.scores ?? []).map(([[id, rank], depth]) => [
          `${id}/${rank}`,
          depth,
        ])
        expect(fleet.scores(small(args[0] as number[]))).toEqual(Object.fromEntries(expected))
      } else if (op === 'remove_worker') fleet.leave(worker)
      else if (op === 'clear_all_blocks') fleet.apply(worker, 0, { kind: 'cleared' })
      else {
        const { data } = args[1] as { data: 'cleared' | { stored: DynamoStored } }
        if (data === 'cleared') {
          fleet.apply(worker, 0, { kind: 'cleared' })
          continue
        }
        const { parent_hash, blocks } = data.stored
        const outcome = fleet.apply(worker, 0, {
          kind: 'stored',
          parent: parent_hash === null ? null : [parent_hash, 0],
          hashes: small(blocks.map((block) => block.block_hash)),
          localHashes: small(blocks.map((block) => block.tokens_hash)),
          tier: 'device',
        })
        expect(outcome).toBe('applied')
      }
    }
  })
})
