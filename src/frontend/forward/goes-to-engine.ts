/** Decides whether a model's servers get a request that Baton answers only for its own engines. */
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpRequest } from '../http/http-exchange.ts'
import { takesForwarded } from '../models/passed-through.ts'
import { readForwardBody } from './forward-body.ts'

/** False also when the model cannot be found: then Baton answers. */
export function goesToEngine({ forwarding, registry }: GenerationDeps, http: HttpRequest): boolean {
  if (forwarding === undefined) return false
  try {
    const { model } = readForwardBody(http.body, http.headers['content-type'], http.path)
    return takesForwarded(registry.known(model))
  } catch {
    return false
  }
}
