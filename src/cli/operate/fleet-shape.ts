/**
 * Checks that an answer describes a fleet before it is used, because another program or another version of
 * Baton may answer at the address.
 */
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import type { FleetView } from '../../frontend/index.ts'

const count = z.number()
const rank = z.object({
  activeRequests: count,
  reportedQueued: count,
  // Null for workers that do not report their KV blocks: llama-server and OpenAI servers never do.
  totalBlocks: count.nullable(),
})
const worker = z.object({
  workerId: z.string(),
  role: z.string(),
  engine: z.string(),
  version: z.string(),
  state: z.string(),
  ranks: z.array(rank).readonly(),
})
const pool = z.object({
  queuedRequests: count,
  refusals: count,
  kvEventWorkers: count,
  kvEventWorkersSilent: count,
})
const model = z.object({
  name: z.string(),
  ready: z.boolean(),
  warnings: z.array(z.string()).readonly(),
  disaggregation: z.object({ state: z.string(), requests: count, disaggregated: count }),
  prefill: pool,
  decode: pool,
  workers: z.array(worker).readonly(),
  workersNotListed: count,
})
const fleet = z.object({
  version: z.string(),
  epochMs: count,
  requestsInFlight: count,
  // A kind of another version has no advice of its own.
  notes: z
    .array(z.object({ kind: z.string(), text: z.string() }))
    .readonly()
    .optional(),
  sums: z.object({ received: count, promptTokens: count, completionTokens: count }),
  models: z.array(model).readonly(),
})

/** Does not compile if this check refuses a value that a field of the view may have. */
type Accepted<View extends z.input<typeof fleet>> = View

/** Throws `transport.version_mismatch`. */
export function fleetOf(body: unknown, url: string): Accepted<FleetView> {
  const { success, error } = fleet.safeParse(body)
  if (success) return body as FleetView
  const place = error.issues[0]?.path.join('.') ?? ''
  const where = place === '' ? '' : ` (${place})`
  throw new BatonError(
    'transport.version_mismatch',
    `the fleet description of ${url} cannot be read${where}: it is not a Baton server, or has another version`,
  )
}
