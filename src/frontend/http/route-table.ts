/**
 * Finds the route of a request: a path by its whole text, or by its beginning when it ends with a name.
 */
import { BatonError, assert } from '../../base/index.ts'
import type { HttpHead } from './http-exchange.ts'
import type { Route } from './route.ts'

export interface RouteMatch {
  readonly route: Route
  /** What stands for the name in the path, decoded; empty when the path has none. */
  readonly name: string
}

type Methods = Map<string, Route>

export class RouteTable {
  readonly #whole = new Map<string, Methods>()
  readonly #named: { readonly prefix: string; readonly methods: Methods }[] = []

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      const methods = this.#methodsFor(route.path)
      assert(!methods.has(route.method), `one route per method and path: ${route.path}`)
      methods.set(route.method, route)
    }
  }

  /** Throws `request.not_found` or `request.method_not_allowed`. */
  find({ method, path }: HttpHead): RouteMatch {
    const { methods, name } = this.#lookUp(path)
    if (methods === undefined) {
      throw new BatonError('request.not_found', `Route not found: ${method} ${path}`)
    }
    const route = methods.get(method) ?? (method === 'HEAD' ? methods.get('GET') : undefined)
    if (route !== undefined) return { route, name }
    const allowed = [...methods.keys()].join(', ')
    const text = `${method} is not allowed here, only ${allowed}`
    throw new BatonError('request.method_not_allowed', text, { data: { allowed } })
  }

  /** Methods of a path; none when there is no such path. */
  methodsOf(path: string): readonly string[] {
    return [...(this.#lookUp(path).methods?.keys() ?? [])]
  }

  #lookUp(path: string): { methods?: Methods; name: string } {
    const methods = this.#whole.get(path)
    if (methods !== undefined) return { methods, name: '' }
    for (const { prefix, methods: named } of this.#named) {
      if (path.startsWith(prefix) && path.length > prefix.length) {
        return { methods: named, name: decoded(path.slice(prefix.length)) }
      }
    }
    return { name: '' }
  }

  #methodsFor(path: string): Methods {
    const prefix = /^(.*\/)\{\w+\}$/.exec(path)?.[1]
    const known =
      prefix === undefined
        ? this.#whole.get(path)
        : this.#named.find((entry) => entry.prefix === prefix)?.methods
    if (known !== undefined) return known
    const methods: Methods = new Map()
    if (prefix === undefined) this.#whole.set(path, methods)
    else this.#named.push({ prefix, methods })
    return methods
  }
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
