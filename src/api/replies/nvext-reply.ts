/** `nvext` of a reply as JSON text: worker ids are unsigned 64-bit integers and must not become doubles. */
import type { WorkerId } from '../../base/index.ts'
import { asciiJson } from '../fields/json-escape.ts'

export interface WorkerSlots {
  prefillWorkerId?: WorkerId
  prefillDpRank?: number
  decodeWorkerId?: WorkerId
  decodeDpRank?: number
}

interface NvExtReply {
  readonly workerId?: WorkerSlots
  readonly timing?: Readonly<Record<string, number>>
  readonly tokenIds?: ArrayLike<number>
  readonly routedExperts?: unknown
  readonly engineData?: unknown
  readonly stopReason?: number | string
  readonly completionTokenIds?: readonly number[]
}

/** Undefined if it would be empty. */
export function nvextJson(reply: NvExtReply): string | undefined {
  const parts: string[] = []
  if (reply.workerId !== undefined) parts.push(`"worker_id":${slotsJson(reply.workerId)}`)
  if (reply.timing !== undefined) parts.push(`"timing":${asciiJson(reply.timing)}`)
  if (reply.tokenIds !== undefined) {
    parts.push(`"token_ids":${asciiJson(Array.from(reply.tokenIds))}`)
  }
  if (reply.routedExperts !== undefined) {
    parts.push(`"routed_experts":${asciiJson(reply.routedExperts)}`)
  }
  if (reply.engineData !== undefined) parts.push(`"engine_data":${asciiJson(reply.engineData)}`)
  if (reply.stopReason !== undefined) parts.push(`"stop_reason":${asciiJson(reply.stopReason)}`)
  if (reply.completionTokenIds !== undefined) {
    parts.push(`"completion_token_ids":${asciiJson(reply.completionTokenIds)}`)
  }
  return parts.length === 0 ? undefined : `{${parts.join(',')}}`
}

/** A worker id is its canonical decimal text, which is valid JSON as it is. */
function slotsJson(slots: WorkerSlots): string {
  const parts: string[] = []
  if (slots.prefillWorkerId !== undefined) {
    parts.push(`"prefill_worker_id":${slots.prefillWorkerId}`)
  }
  if (slots.prefillDpRank !== undefined) parts.push(`"prefill_dp_rank":${slots.prefillDpRank}`)
  if (slots.decodeWorkerId !== undefined) parts.push(`"decode_worker_id":${slots.decodeWorkerId}`)
  if (slots.decodeDpRank !== undefined) parts.push(`"decode_dp_rank":${slots.decodeDpRank}`)
  return `{${parts.join(',')}}`
}
