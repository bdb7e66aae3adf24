/**
 * Checks that an answer describes a fleet before it is used, because another program or another version of
 * Baton may answer at the address.
 */
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import type { FleetView } from '../../frontend/index.ts'

const count = z.number()
const rank = z.looseObject({ activeRequests: count, reportedQueued: count, totalBlocks: count })
const worker = z.looseObject({
  workerId: z.string(),
  role: z.string(),
  engine: z.string(),
  version: z.string(),
  state: z.string(),
  ranks: z.array(rank),
})
const pool = z.looseObject({
  queuedRequests: count,
  refusals: count,
  kvEventWorkers: count,
  kvEventWorkersSilent: count,
})
const model = z.looseObject({
  name: z.string(),
  ready: z.boolean(),
  warnings: z.array(z.string()),
  disaggregation: z.looseObject({ state: z.string(), requests: count, disaggregated: count }),
  prefill: pool,
  decode: pool,
  workers: z.array(worker),
  workersNotListed: count,
})
const fleet = z.looseObject({
  version: z.string(),
  epochMs: count,
  requestsInFlight: count,
  notes: z.array(z.string()).optional(),
  sums: z.looseObject({ received: count, promptTokens: count, completionTokens: count }),
  models: z.array(model),
})

/** Throws `transport.version_mismatch`. */
export function fleetOf(body: unknown, url: string): FleetView {
  const { success, error } = fleet.safeParse(body)
  if (success) return body as FleetView
  const place = error.issues[0]?.path.join('.') ?? ''
  const where = place === '' ? '' : ` (${place})`
  throw new BatonError(
    'transport.version_mismatch',
    `the fleet description of ${url} cannot be read${where}: it is not a Baton server, or has another version`,
  )
}
