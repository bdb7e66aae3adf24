/**
 * Reads the body of a request that the servers of its model answer themselves, although Baton has a route for it. Null
 * otherwise, also if the body cannot be parsed or its model is unknown: Baton's own route refuses these.
 */
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpRequest } from '../http/http-exchange.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import { hasPassedThrough, isPassedThrough, takesForwarded } from '../models/passed-through.ts'
import type { ServedModel } from '../models/served-model.ts'
import { readForwardBody } from './forward-body.ts'
import type { ForwardBody } from './forward-body.ts'

/** For all routes: the model is served only by passing requests through. */
export function passedThroughBody(http: HttpRequest, registry: ModelRegistry): ForwardBody | null {
  return hasPassedThrough(registry.names.families) ? bodyFor(http, registry, isPassedThrough) : null
}

/** For routes that Baton answers only with engines of its own: the model's servers take requests unchanged. */
export function bodyForEngine(
  { forwarding, registry }: GenerationDeps,
  http: HttpRequest,
): ForwardBody | null {
  return forwarding === undefined ? null : bodyFor(http, registry, takesForwarded)
}

function bodyFor(
  { body, headers, path }: HttpRequest,
  registry: ModelRegistry,
  isForServers: (model: ServedModel) => boolean,
): ForwardBody | null {
  try {
    const read = readForwardBody(body, headers['content-type'], path)
    return isForServers(registry.names.known(read.model)) ? read : null
  } catch {
    return null
  }
}
