/**
 * Routes that forward requests unchanged to an engine: all generating routes when everything is forwarded,
 * routes that Baton does not have, and every request of a model for which Baton makes no tokens.
 */
import type { Endpoint } from '../generation/frontend-event.ts'
import type { Generator } from '../generation/generation-job.ts'
import type { Handler, Route } from '../http/route.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import { passedThroughBody } from './engine-body.ts'
import { answerForwarded, answerForwardedBody } from './forward-answer.ts'

/** Routes that Baton answers itself when it can tokenise. */
const GENERATING: readonly (readonly [path: string, endpoint: Endpoint])[] = [
  ['/v1/chat/completions', 'chat_completions'],
  ['/v1/completions', 'completions'],
  ['/v1/responses', 'responses'],
  ['/v1/responses/input_tokens', 'tokens'],
  ['/v1/messages', 'anthropic_messages'],
  ['/v1/messages/count_tokens', 'tokens'],
  ['/v1/embeddings', 'embeddings'],
  ['/tokenize', 'tokens'],
  ['/detokenize', 'tokens'],
  ['/v1/tokenize', 'tokens'],
  ['/v1/detokenize', 'tokens'],
]

/** Routes that only engines have. */
const FOREIGN: readonly (readonly [path: string, endpoint: Endpoint])[] = [
  ['/v1/audio/{name...}', 'audio'],
  ['/v1/images/{name...}', 'images'],
  ['/v1/moderations', 'moderations'],
  ['/classify', 'classify'],
  ['/v1/classify', 'classify'],
  ['/pooling', 'pooling'],
]

export function forwardRoutes(
  always: boolean,
  generating: (endpoint: Endpoint, answer: Generator) => Handler,
): readonly Route[] {
  return [...(always ? GENERATING : []), ...FOREIGN].map(([path, endpoint]) => ({
    method: 'POST',
    path,
    access: 'client',
    body: 'large',
    form: path.startsWith('/v1/messages') ? 'anthropic' : 'openai',
    handle: generating(endpoint, answerForwarded),
  }))
}

/** Baton's own route, except for models whose engines need the request unchanged. */
export function orPassedThrough(
  route: Route,
  registry: ModelRegistry,
  generating: (endpoint: Endpoint, answer: Generator) => Handler,
): Route {
  const [, endpoint] = GENERATING.find(([path]) => path === route.path) ?? []
  if (endpoint === undefined || route.method !== 'POST') return route
  return {
    ...route,
    handle: (http, call) => {
      const body = passedThroughBody(http, registry)
      if (body === null) return route.handle(http, call)
      const answer: Generator = (deps, _, record) => answerForwardedBody(deps, http, record, body)
      return generating(endpoint, answer)(http, call)
    },
  }
}
