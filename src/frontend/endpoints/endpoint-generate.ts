/**
 * `POST /inference/v1/generate`: token ids in, token ids out.
 */
import { parseTokenRequest, readJsonObject } from '../../api/index.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { generate } from '../generation/generation.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { tokenPrompt } from '../prompt/prompt.ts'
import { TOKEN_WRITERS } from '../reply/token-writers.ts'

export async function answerGenerate(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const call = parseTokenRequest(readJsonObject(http.body, http.headers['content-type']))
  return generate(deps, http, record, {
    call,
    writers: TOKEN_WRITERS,
    promptParam: 'token_ids',
    prompts: (text) => [tokenPrompt(call.tokenIds, text, 'token_ids')],
  })
}
