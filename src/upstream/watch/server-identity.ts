/**
 * Recognizes that another server answers at an address: one that was started again with another model or other
 * settings, or the next one behind a load balancer. All that Baton learned at the start (tokenizer, template, context,
 * model name) may then be wrong, although nothing ever fails.
 *
 * What a server reports about the model in use is compared; its list may have other entries that come and go. Servers
 * that report the same are taken for the same, so several equal ones may share an address.
 */
import { isRecord } from '../../base/index.ts'
import { askJson } from '../client/fetch-json.ts'
import { modelEntries } from '../client/model-list.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'

/** Reported values as JSON, by name. */
export type ServerIdentity = Readonly<Record<string, string | undefined>>

const OF_MODEL = ['id', 'root', 'max_model_len', 'context_length']
/** Of llama-server. */
const OF_PROPS = ['model_path', 'chat_template', 'total_slots']

interface IdentityQuestion {
  readonly kind: UpstreamKind
  /** The name of the model in use, as the server has it. */
  readonly model: string
  readonly deadlineMs: number
}

/** Null: the server does not tell, or not now. */
export async function serverIdentity(
  client: UpstreamClient,
  { kind, model, deadlineMs }: IdentityQuestion,
): Promise<ServerIdentity | null> {
  const entries = modelEntries(await askJson(client, '/v1/models', { deadlineMs }))
  if (entries.length === 0) return null
  const entry = entries.find(({ id }) => id === model) ?? {}
  if (kind !== 'llama-server') return chosen(entry, OF_MODEL)
  const props = await askJson(client, '/props', { deadlineMs })
  if (!isRecord(props)) return null
  return { ...chosen(entry, [...OF_MODEL, 'meta']), ...chosen(props, OF_PROPS) }
}

/** The names of the values that differ; empty: the same server, as far as it tells. */
export function changedNames(before: ServerIdentity, after: ServerIdentity): readonly string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].filter((name) => before[name] !== after[name])
}

function chosen(from: Readonly<Record<string, unknown>>, names: readonly string[]): ServerIdentity {
  return Object.fromEntries(names.map((name) => [name, JSON.stringify(from[name])]))
}
