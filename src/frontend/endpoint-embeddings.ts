/**
 * `POST /v1/embeddings`: no engine of this build makes embeddings, and each refusal says so by name.
 */
import { BatonError } from '../base/index.ts'
import { parseEmbeddingRequest, readJsonObject } from '../api/index.ts'
import type { GenerationDeps } from './generation-job.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'

export function answerEmbeddings(deps: GenerationDeps, http: HttpRequest): Promise<HttpReply> {
  const call = parseEmbeddingRequest(readJsonObject(http.body, http.headers['content-type']))
  const model = deps.registry.ready(call.model)
  const hasFeature = model.features?.includes('embeddings') ?? false
  const error = new BatonError(
    hasFeature ? 'runtime.not_implemented' : 'request.unsupported_parameter',
    hasFeature
      ? 'embeddings are not carried by this version'
      : `the engine of model \`${model.name}\` does not make embeddings`,
    { data: { param: 'model' } },
  )
  return Promise.reject(error)
}
