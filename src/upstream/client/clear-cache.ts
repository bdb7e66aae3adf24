/**
 * Clears a server's prompt cache. Throws `runtime.not_implemented` when the server has no such route, with advice
 * how to enable it.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { fetchWhole, jsonOf } from './fetch-json.ts'
import type { WholeResponse } from './fetch-json.ts'
import type { UpstreamClient } from './upstream-client.ts'

const DEADLINE_MS = 10_000

/** The server's own way to clear its cache; absent: it has none. */
interface CacheClearer {
  clearCache?(client: UpstreamClient): Promise<unknown>
}

export async function clearCache(client: UpstreamClient, server: CacheClearer): Promise<unknown> {
  if (server.clearCache !== undefined) return await server.clearCache(client)
  throw cannotClear('an OpenAI server', 'the OpenAI API has no such route')
}

/** Sends one request without a body. */
export async function clearByPost(
  client: UpstreamClient,
  path: string,
  hint: string,
): Promise<unknown> {
  const answer = await postClear(client, path)
  if (answer.status === 404 || answer.status === 405) throw cannotClear(`POST ${path}`, hint)
  return accepted(path, answer)
}

/** llama-server: each slot keeps the KV of its last prompt. */
export async function eraseSlots(client: UpstreamClient): Promise<unknown> {
  const { status, text } = await fetchWhole(
    client,
    { method: 'GET', path: '/slots' },
    { deadlineMs: DEADLINE_MS },
  )
  const slots = status === 200 ? jsonOf(text) : null
  if (!Array.isArray(slots)) throw cannotClear('GET /slots', 'it was started with --no-slots')
  const ids = slots.flatMap((slot) => (isRecord(slot) ? [Number(slot['id'])] : []))
  for (const id of ids) {
    const path = `/slots/${id}?action=erase`
    const answer = await postClear(client, path)
    if (answer.status === 501)
      throw cannotClear(path, 'it can erase slots only with --slot-save-path')
    accepted(path, answer)
  }
  return { erased_slots: ids.length }
}

async function postClear(client: UpstreamClient, path: string): Promise<WholeResponse> {
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

function cannotClear(what: string, hint: string): BatonError {
  return new BatonError(
    'runtime.not_implemented',
    `${what}: the engine cannot clear its cache; ${hint}`,
  )
}
