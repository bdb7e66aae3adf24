/** Decisions of the original router, as recorded: its costs, overlaps and loads. */
import { readFileSync } from 'node:fs'

import { describe, expect, it } from 'vitest'

import { buildPool, selected, stored } from '../../../test/router/pool-fixture.ts'
import { card, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { RouterOverrides, RoutingHints } from '../../request/index.ts'
import type { Booking } from '../load/active-sequences.ts'
import type { KvRouter } from './kv-router.ts'
import type { RouterOptions } from '../configuration/router-config.ts'
import type { Selection } from './selection.ts'

interface Step {
  op: string
  id?: string
  selection_id?: string
  worker?: number
  worker_id?: number
  tokens?: number[]
  token_ids?: number[]
  effective_prefill_tokens?: number
  allowed?: number[] | null
  override?: Record<string, number | boolean> | null
  osl?: number | null
  cached?: number
  effective?: number
  potential?: number
  logit?: number | null
  decay?: number | null
  loads?: Record<string, [number, number, number]>
}

const file = new URL('../../../test/vectors/router-selection-service.json', import.meta.url)
const { rows } = JSON.parse(readFileSync(file, 'utf8')) as {
  rows: { scenario: string; env: Record<string, string>; steps: Step[] }[]
}

const ENV: Record<string, string> = {
  DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT: 'overlapScoreCredit',
  DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY: 'overlapScoreCreditDecay',
  DYN_ROUTER_ASSUME_KV_REUSE: 'assumeKvReuse',
  DYN_ROUTER_TRACK_PREFILL_TOKENS: 'trackPrefillTokens',
  DYN_ROUTER_PREFILL_LOAD_SCALE: 'prefillLoadScale',
  DYN_ROUTER_TEMPERATURE: 'temperature',
}

describe('KvRouter: recorded selection service', () => {
  it.each(rows.map((row) => [`${row.scenario} ${JSON.stringify(row.env)}`, row] as const))(
    '%s - costs, overlaps and loads',
    (_, { env, steps }) => {
      const config = Object.fromEntries(
        Object.entries(env).map(([name, value]) => [ENV[name], JSON.parse(value) as unknown]),
      )
      const { router } = buildPool(config as RouterOptions)
      const bookings = new Map<string, Booking>()
      const pending = new Map<string, Selection>()
      steps.forEach((step, index) => {
        const where = `step ${index} ${step.op}`
        const booking = bookings.get(step.id ?? '') as Booking
        switch (step.op) {
          case 'join':
            router.workerJoined(card(step.worker as number))
            break
          case 'stored':
            stored(router, step.worker as number, step.tokens ?? [])
            break
          case 'select':
          case 'reserve': {
            const free = asDecode(router, step, hints(step))
            // Recorded choices between equal costs are random: what must hold is the cost of the chosen one.
            const only = { ...hints(step), allowedWorkerIds: [workerIdOf(step.worker as number)] }
            const isSame = free.workerId === String(step.worker)
            const answer = isSame ? free : asDecode(router, step, only)
            expect(free.cost, where).toBe(answer.cost)
            expect(answer.effectivePrefillTokens, where).toBe(step.effective)
            expect(answer.cachedTokens, where).toBe(step.cached)
            expect(answer.potentialDecodeBlocks, where).toBe(step.potential)
            if (step.logit !== null) expect(answer.cost, where).toBeCloseTo(step.logit as number, 6)
            if (step.op === 'reserve') bookings.set(step.id as string, router.book(answer))
            else if (step.id) pending.set(step.id, answer)
            break
          }
          case 'create_reservation': {
            const before = pending.get(step.selection_id as string)
            const answer =
              before ??
              selected(router, step.token_ids ?? [], {
                allowedWorkerIds: [workerIdOf(step.worker_id as number)],
              })
            const tokens = step.effective_prefill_tokens ?? answer.effectivePrefillTokens
            const trackPrefill = answer.trackPrefill || step.effective_prefill_tokens !== undefined
            const chosen = { ...answer, effectivePrefillTokens: tokens, trackPrefill }
            bookings.set(step.selection_id as string, router.book(chosen))
            break
          }
          case 'prefill_complete':
            router.prefillDone(booking)
            break
          case 'add_output_block':
            router.addOutputBlock(booking, step.decay ?? undefined)
            break
          case 'free_reservation':
            router.free(booking)
            break
          case 'loads':
            for (const rank of router.status().ranks) {
              expect(
                [rank.activePrefillTokens, rank.activeDecodeBlocks, rank.activeRequests],
                `${where} of ${rank.workerId}`,
              ).toEqual(step.loads?.[rank.workerId])
            }
            break
          default:
            throw new Error(`step ${step.op} is not known`)
        }
      })

      function asDecode(pool: KvRouter, step: Step, routing: RoutingHints): Selection {
        const query = { request: request(step.tokens ?? [], routing), phase: 'decode' } as const
        const answer = pool.select({ ...query, queuedMs: 0 })
        if (answer.kind === 'refused') throw answer.error
        return answer
      }

      function hints(step: Step): RoutingHints {
        // The recorded version accepts only these two overrides; Baton accepts all, so the others are omitted here.
        const { assume_kv_reuse: reuse, track_prefill_tokens: track } = step.override ?? {}
        const overrides: RouterOverrides = {
          ...(reuse === undefined ? {} : { assumeKvReuse: Boolean(reuse) }),
          ...(track === undefined ? {} : { trackPrefillTokens: Boolean(track) }),
        }
        return {
          ...(step.allowed ? { allowedWorkerIds: step.allowed.map(workerIdOf) } : {}),
          ...(step.osl ? { expectedOutputTokens: step.osl } : {}),
          overrides,
        }
      }
    },
  )
})
