import { readFileSync } from 'node:fs'

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { card } from '../../../test/router/scripted-plane.ts'
import { hashesFromBigints } from '../../kv/index.ts'
import { ActiveSequences } from './active-sequences.ts'
import type { Booking } from './active-sequences.ts'
import { RankTable } from '../ranks/rank-table.ts'

interface Step {
  op: 'add_request' | 'free' | 'mark_prefill_completed' | 'add_output_block'
  id: string
  worker?: string
  token_sequence?: string[] | null
  track_prefill_tokens?: boolean
  prefill_load_hint?: {
    initial_effective_prefill_tokens: number
    expected_prefill_duration_ms: number | null
  } | null
  decay_fraction?: number | null
  ok?: false
  outcome?: string
  t_ms: number
  query: string[] | null
  after: Record<string, [number, number, number, number]>
}

const file = new URL('../../../test/vectors/router-active-sequences.json', import.meta.url)
const { rows } = JSON.parse(readFileSync(file, 'utf8')) as {
  rows: { transcript: number; block_size: number; steps: Step[] }[]
}

const pairs = (hashes: string[]): Uint32Array => hashesFromBigints(hashes.map(BigInt))

function build(blockSize: number) {
  const table = new RankTable()
  table.join(card(0))
  table.join(card(1))
  table.join(card(2, 'agg', { engine: { dataParallelSize: 2 } }))
  const sequences = new ActiveSequences(
    table,
    () => blockSize,
    () => undefined,
  )
  const slot = (name: string): number => {
    const [worker, rank] = name.split('/')
    return table.slotOf(card(Number(worker)).workerId, Number(rank))
  }
  return { table, sequences, slot }
}

describe('ActiveSequences', () => {
  it.each(rows.map((row) => [row.transcript, row] as const))(
    'transcript %i - loads after every step',
    (_, row) => {
      const { table, sequences, slot } = build(row.block_size)
      const bookings = new Map<string, Booking>()
      row.steps.forEach((step, index) => {
        play(step)
        sequences.refresh(step.t_ms)
        const depths = new Int32Array(table.capacity)
        const query = pairs(step.query ?? [])
        sequences.depths(query, depths)
        for (const [worker, expected] of Object.entries(step.after)) {
          const at = slot(worker)
          const found = [
            table.activePrefillTokens[at],
            Math.round(table.activeDecodeBlocks[at] as number),
            table.activeRequests[at],
            query.length / 2 - (depths[at] as number),
          ]
          expect(found, `step ${index} ${step.op} ${step.id} on ${worker}`).toEqual(expected)
        }
      })

      function play(step: Step): void {
        const booking = bookings.get(step.id)
        switch (step.op) {
          case 'add_request': {
            if (step.ok === false) return
            const hint = step.prefill_load_hint
            bookings.set(
              step.id,
              sequences.add(
                {
                  slot: slot(step.worker as string),
                  hashes: step.token_sequence ? pairs(step.token_sequence) : null,
                  promptTokens: 0,
                  prefillTokens:
                    step.track_prefill_tokens === false
                      ? null
                      : (hint?.initial_effective_prefill_tokens ?? null),
                  prefillDurationMs: hint?.expected_prefill_duration_ms ?? null,
                },
                step.t_ms,
              ),
            )
            return
          }
          case 'free':
            if (booking !== undefined) sequences.free(booking, step.t_ms)
            return
          case 'mark_prefill_completed':
            if (booking !== undefined) sequences.prefillDone(booking, step.t_ms)
            return
          case 'add_output_block':
            if (booking !== undefined) {
              sequences.addOutputBlock(booking, step.decay_fraction ?? undefined)
            }
        }
      }
    },
  )

  it('any interleaving of ends - the load returns to zero', () => {
    const prompts = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 6 })
    const action = fc.record({
      kind: fc.constantFrom('add', 'add', 'prefill', 'output', 'free', 'free-twice', 'drop'),
      prompt: prompts,
      which: fc.nat(20),
      slot: fc.integer({ min: 0, max: 3 }),
      fraction: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
    })
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60, size: 'max' }), (actions) => {
        const { table, sequences } = build(4)
        const open: Booking[] = []
        actions.forEach(({ kind, prompt, which, slot, fraction }, nowMs) => {
          const booking = open[which % Math.max(open.length, 1)]
          if (kind === 'add') {
            const hashes = Uint32Array.from(chain(prompt))
            const prefillTokens = prompt.length * 4
            open.push(
              sequences.add({ slot, hashes, promptTokens: prefillTokens, prefillTokens }, nowMs),
            )
          } else if (kind === 'drop') sequences.dropSlot(slot, nowMs)
          else if (booking === undefined) return
          else if (kind === 'prefill') sequences.prefillDone(booking, nowMs)
          else if (kind === 'output') sequences.addOutputBlock(booking, fraction)
          else {
            sequences.free(booking, nowMs)
            if (kind === 'free-twice') expect(sequences.free(booking, nowMs)).toBe(false)
          }
        })
        for (const booking of open) sequences.free(booking, 1000)
        for (const slot of table.live) {
          expect(table.activeRequests[slot]).toBe(0)
          expect(table.activePrefillTokens[slot]).toBe(0)
          expect(table.activeDecodeBlocks[slot]).toBe(0)
        }
        expect(sequences.isEmpty).toBe(true)
      }),
    )
  })

  it('distinct blocks - the tree counts like a set', () => {
    const bits = fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 8 })
    const prompts = fc.array(bits, { maxLength: 30, size: 'max' })
    fc.assert(
      fc.property(prompts, fc.array(fc.nat(30), { maxLength: 30, size: 'max' }), (all, ends) => {
        const { table, sequences } = build(4)
        const open = all.map((prompt) => ({
          prompt,
          booking: sequences.add(
            { slot: 0, hashes: Uint32Array.from(chain(prompt)), promptTokens: 0, prefillTokens: 0 },
            0,
          ),
        }))
        const check = (): void => {
          const left = open.filter(({ booking }) => !booking.freed)
          const blocks = new Set(
            left.flatMap(({ prompt }) => prompt.map((_, i) => prompt.slice(0, i + 1).join())),
          )
          expect(table.activeDecodeBlocks[0]).toBe(blocks.size)
        }
        check()
        for (const end of ends) {
          const one = open[end]
          if (one === undefined) continue
          sequences.free(one.booking, 0)
          check()
        }
      }),
    )
  })
})

/** Stand-in for chained hashes: equal prefixes have equal pairs. */
function chain(prompt: readonly number[]): number[] {
  let hash = 1
  return prompt.flatMap((block) => {
    hash = (Math.imul(hash, 31) + block + 1) >>> 0
    return [hash, hash >>> 3]
  })
}
