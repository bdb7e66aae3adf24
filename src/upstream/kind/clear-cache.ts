/**
 * Forgetting what a server has cached of prompts, in the words of its kind. Throws `runtime.not_implemented` where the server has
 * no such route, with what turns it on.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { fetchWhole, jsonOf } from '../client/fetch-json.ts'
import type { WholeResponse } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { UpstreamKind } from './upstream-kind.ts'

const DEADLINE_MS = 10_000

export async function clearCache(client: UpstreamClient, kind: UpstreamKind): Promise<unknown> {
  switch (kind) {
    case 'vllm':
      return await asked(client, '/reset_prefix_cache', 'it has it with VLLM_SERVER_DEV_MODE=1')
    case 'sglang':
      return await asked(client, '/flush_cache', 'its version has no such route')
    case 'llama-server':
      return await erasedSlots(client)
    case 'openai':
      throw missing('an OpenAI server', 'there is no such route in that API')
  }
}

async function asked(client: UpstreamClient, path: string, hint: string): Promise<unknown> {
  const answer = await posted(client, path)
  if (answer.status === 404 || answer.status === 405) throw missing(`POST ${path}`, hint)
  return accepted(path, answer)
}

/** Each sequence that it has room for keeps the KV of its last prompt. */
async function erasedSlots(client: UpstreamClient): Promise<unknown> {
  const { status, text } = await fetchWhole(
    client,
    { method: 'GET', path: '/slots' },
    { deadlineMs: DEADLINE_MS },
  )
  const slots = status === 200 ? jsonOf(text) : null
  if (!Array.isArray(slots)) throw missing('GET /slots', 'it was started with --no-slots')
  const ids = slots.flatMap((slot) => (isRecord(slot) ? [Number(slot['id'])] : []))
  for (const id of ids) {
    const path = `/slots/${id}?action=erase`
    const answer = await posted(client, path)
    if (answer.status === 501) throw missing(path, 'it erases with --slot-save-path only')
    accepted(path, answer)
  }
  return { erased_slots: ids.length }
}

async function posted(client: UpstreamClient, path: string): Promise<WholeResponse> {
  return await fetchWhole(
    client,
    { method: 'POST', path, headers: { 'Content-Type': 'application/json' }, body: '{}' },
    { deadlineMs: DEADLINE_MS },
  )
}

function accepted(path: string, { status, text }: WholeResponse): unknown {
  if (status === 200) return { status: 'ok' }
  const said = `POST ${path} answered ${status}: ${text.slice(0, 200)}`
  throw new BatonError('request.conflict', said)
}

function missing(what: string, hint: string): BatonError {
  return new BatonError(
    'runtime.not_implemented',
    `${what}: the engine cannot clear its cache; ${hint}`,
  )
}
