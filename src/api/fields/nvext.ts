/** `nvext`: Dynamo's extension of the OpenAI request for routing and annotations. Unknown keys are refused by name. */
import { z } from 'zod'
import { parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { GOAL_MAX_MS } from '../../request/index.ts'
import { recordSchema } from './record-schema.ts'

const MAX_U32 = 0xffffffff
const u32 = z.int().min(0).max(MAX_U32)

/** An integer, or decimal text if it has more digits than a double holds (see `json-body`). */
export const workerId = z
  .union([z.int().min(0), z.string()], 'must be an unsigned 64-bit integer')
  .transform((value, context): WorkerId => {
    const id = parseWorkerId(String(value))
    if (id !== null) return id
    context.addIssue({ code: 'custom', message: 'must be an unsigned 64-bit integer' })
    return z.NEVER
  })
  .meta({ type: 'integer', minimum: 0, description: 'unsigned 64-bit integer' })

const agentHints = z.strictObject({
  priority: z.int().min(-2147483648).max(2147483647).optional(),
  strict_priority: u32.optional(),
  osl: u32.optional(),
  speculative_prefill: z.boolean().optional(),
  latency_sensitivity: z.number().min(0).optional(),
})

const sessionControl = z.strictObject({
  session_id: z.string().trim().min(1).max(256),
  action: z.enum(['open', 'close', 'bind']).optional(),
  timeout: z.number().positive().default(300),
})

const weightFault = (_taint: string, weight: unknown): string | null =>
  Number.isFinite(weight) ? null : 'must be a number'

const routingConstraints = z.strictObject({
  required_taints: z.array(z.string().min(1)).optional(),
  preferred_taints: recordSchema<number>('number', weightFault).optional(),
})

const goalMs = z.number().positive().max(GOAL_MAX_MS).optional()

const routerParameters = z.strictObject({
  ttft_target: goalMs,
  itl_target: goalMs,
  overlap_score_weight: z.number().min(0).optional(),
  overlap_score_credit: z.number().min(0).optional(),
  prefill_load_scale: z.number().min(0).optional(),
  shared_cache_multiplier: z.number().min(0).max(1).optional(),
  temperature: z.number().min(0).optional(),
  assume_kv_reuse: z.boolean().optional(),
  track_prefill_tokens: z.boolean().optional(),
})

export const nvextSchema = z.strictObject({
  greed_sampling: z.boolean().optional(),
  use_raw_prompt: z.boolean().optional(),
  annotations: z.array(z.string()).optional(),
  backend_instance_id: workerId.optional(),
  token_data: z.array(u32).optional(),
  max_thinking_tokens: u32.optional(),
  extra_fields: z.array(z.string()).optional(),
  prefill_worker_id: workerId.optional(),
  decode_worker_id: workerId.optional(),
  dp_rank: u32.optional(),
  prefill_dp_rank: u32.optional(),
  agent_hints: agentHints.optional(),
  request_timestamp_ms: z.number().min(0).optional(),
  session_control: sessionControl.optional(),
  routing_constraints: routingConstraints.optional(),
  cache_salt: z.string().optional(),
  router: routerParameters.optional(),
})

export type NvExt = z.infer<typeof nvextSchema>

/** Annotations have the form `key:value`; returns the value of the first one with this key. */
export function annotationValue(nvext: NvExt, key: string): string | undefined {
  const entry = nvext.annotations?.find((text) => text.startsWith(`${key}:`))
  return entry?.slice(key.length + 1)
}

/** True for `query_instance_id:`, which only asks where the request would run. */
export function isQueryOnly(nvext: NvExt): boolean {
  return annotationValue(nvext, 'query_instance_id') !== undefined
}
