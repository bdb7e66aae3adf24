/**
 * Recognizes that another server answers at an address: one that was started again with another model or other
 * settings, or the next one behind a load balancer. All that Baton learned at the start (tokenizer, template, context,
 * model name) may then be wrong, although nothing ever fails.
 *
 * What a server reports about the model in use is compared, and the facts of its dialect; its list may have other
 * entries that come and go, and what it does not tell now is not compared. Servers that report the same are taken for the
 * same, so several equal ones may share an address.
 */
import { fetchWhole, jsonOf } from '../client/fetch-json.ts'
import { adapterNames, modelEntries } from '../client/model-list.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { Dialect } from '../dialects/dialect.ts'
import { errorOfResponse, isAccessRefusal } from '../dialects/upstream-error.ts'

type Values = Readonly<Record<string, string | undefined>>

export interface ServerIdentity {
  /** Reported values as JSON, by name. */
  readonly values: Values
  /** The LoRA adapters in its list of models, which a server loads and unloads while it runs. */
  readonly adapters: readonly string[]
}

const OF_MODEL = ['id', 'root', 'max_model_len', 'context_length', 'meta']

interface IdentityQuestion {
  readonly dialect: Pick<Dialect, 'identity'>
  /** The name of the model in use, as the server has it. */
  readonly model: string
  readonly deadlineMs: number
}

/**
 * Null: the server does not tell, or not now. Rejects when it cannot be reached, and with the server's words when it
 * refuses Baton's credentials.
 */
export async function serverIdentity(
  client: UpstreamClient,
  { dialect, model, deadlineMs }: IdentityQuestion,
): Promise<ServerIdentity | null> {
  const request = { method: 'GET', path: '/v1/models' }
  const { status, text } = await fetchWhole(client, request, { deadlineMs })
  if (isAccessRefusal(status)) throw errorOfResponse(status, text)
  const entries = modelEntries(status === 200 ? jsonOf(text) : null)
  if (entries.length === 0) return null
  const entry = entries.find(({ id }) => id === model) ?? {}
  const facts = (await dialect.identity?.(client, deadlineMs)) ?? {}
  return {
    values: { ...chosen(entry, OF_MODEL), ...chosen(facts, Object.keys(facts)) },
    adapters: adapterNames(entries),
  }
}

/** The names of the values that differ; empty: the same server, as far as it tells. */
export function changedNames(before: ServerIdentity, after: ServerIdentity): readonly string[] {
  const names = Object.keys(before.values).filter((name) => name in after.values)
  return names.filter((name) => before.values[name] !== after.values[name])
}

function chosen(from: Readonly<Record<string, unknown>>, names: readonly string[]): Values {
  return Object.fromEntries(names.map((name) => [name, JSON.stringify(from[name])]))
}
