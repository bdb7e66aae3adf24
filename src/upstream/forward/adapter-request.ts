/**
 * A forwarded request for a LoRA adapter, in the form in which its server understands it.
 *
 * Most servers find the adapter by the name of the model, which the client has given. SGLang answers any model's name,
 * also an adapter's, with the base model: it needs the adapter in a field of its own, which only some of its endpoints
 * have.
 */
import { BatonError } from '../../base/index.ts'
import { withFields } from '../../request/index.ts'
import type { ForwardedRequest, GenerateRequest } from '../../request/index.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'

/** Those of SGLang with the field `lora_path`. */
const WITH_ADAPTER = new Set(['/v1/chat/completions', '/v1/completions', '/v1/embeddings'])
/** Adapters do not change what these answer. */
const WITHOUT_MODEL = /\/(?:tokenize|detokenize|count_tokens)$/

/** An error for the client if the server would answer with the base model. */
export function withAdapter(
  kind: UpstreamKind,
  forward: ForwardedRequest,
  { routing: { loraName } }: GenerateRequest,
): ForwardedRequest | BatonError {
  if (kind !== 'sglang' || loraName === undefined) return forward
  const [path = ''] = forward.path.split('?')
  if (WITHOUT_MODEL.test(path)) return forward
  if (!WITH_ADAPTER.has(path)) {
    return new BatonError(
      'request.unsupported_parameter',
      `SGLang answers ${path} with the base model, not with the adapter \`${loraName}\`: use /v1/chat/completions`,
      { data: { param: 'model' } },
    )
  }
  const field = `"lora_path":${JSON.stringify(loraName)}`
  const { body, prefillBody } = forward
  return {
    ...forward,
    body: withFields(body, field),
    ...(prefillBody === undefined
      ? {}
      : { prefillBody: (isStreamed?: boolean) => withFields(prefillBody(isStreamed), field) }),
  }
}
