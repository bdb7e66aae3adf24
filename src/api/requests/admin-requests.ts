/** Request bodies of the `/admin` endpoints. */
import { z } from 'zod'
import type { WorkerId } from '../../base/index.ts'
import { invalid } from '../fields/generation-fields.ts'
import { workerId } from '../fields/nvext.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'

const WEIGHT_MAX = 1_000_000

export const workerCommandSchema = z.strictObject({ worker_id: workerId })

export const roleCommandSchema = z.strictObject({
  worker_id: workerId,
  role: z.enum(['prefill', 'decode']),
  reason: z.string().max(500).optional(),
})

export const weightSchema = z.strictObject({
  model: z.string().min(1).optional(),
  version: z.string().min(1).optional(),
  worker_id: workerId.optional(),
  weight: z.number().min(0).max(WEIGHT_MAX),
})

export const clearCacheSchema = z.strictObject({
  model: z.string().min(1).optional(),
  worker_id: workerId.optional(),
})

interface ClearCacheCall {
  readonly model?: string
  readonly workerId?: WorkerId
}

/** Applies to all models and workers unless the body restricts it. */
export function parseClearCache(body: Record<string, unknown>): ClearCacheCall {
  const fields = checked(clearCacheSchema, withoutNulls(body))
  return given({ model: fields.model, workerId: fields.worker_id })
}

export function parseWorkerCommand(body: Record<string, unknown>): { readonly workerId: WorkerId } {
  return { workerId: checked(workerCommandSchema, body).worker_id }
}

export function parseRoleCommand(body: Record<string, unknown>): {
  readonly workerId: WorkerId
  readonly role: 'prefill' | 'decode'
  readonly reason?: string
} {
  const { worker_id, role, reason } = checked(roleCommandSchema, withoutNulls(body))
  return { workerId: worker_id, role, ...given({ reason }) }
}

export interface WeightCall {
  readonly weight: number
  readonly model?: string
  /** Exactly one of the two is present. */
  readonly version?: string
  readonly workerId?: WorkerId
}

export function parseWeight(body: Record<string, unknown>): WeightCall {
  const { weight, model, version, worker_id } = checked(weightSchema, withoutNulls(body))
  if ((version === undefined) === (worker_id === undefined)) {
    throw invalid('version', 'give either `version` or `worker_id`')
  }
  return { weight, ...given({ model, version, workerId: worker_id }) }
}
