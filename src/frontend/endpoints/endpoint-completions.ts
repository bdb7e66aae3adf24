/**
 * `POST /v1/completions`: one or several prompts, as text or as token ids.
 */
import { parseCompletionRequest, readJsonObject } from '../../api/index.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { generate } from '../generation/generation.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { completionPrompts } from '../prompt/prompt.ts'
import { COMPLETION_WRITERS } from '../reply/openai-writers.ts'

export async function answerCompletions(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const call = parseCompletionRequest(readJsonObject(http.body, http.headers['content-type']))
  return generate(deps, http, record, {
    call,
    writers: COMPLETION_WRITERS,
    promptParam: 'prompt',
    prompts: (text, offLoop) => completionPrompts(call.prompts, call, text, offLoop),
    echoes: (prompts, text) =>
      call.echo
        ? prompts.map((prompt) => prompt.text ?? text.tokenizer.decode(prompt.tokenIds))
        : [],
  })
}
