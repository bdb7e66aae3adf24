/**
 * Finds the route of a request by its path: a fixed text, or a template with names in braces.
 *
 * `{id}` matches one segment, `{id...}` at the end matches the rest of the path (names of models contain
 * slashes). If several templates match, the one with more segments is used.
 */
import { BatonError, assert } from '../../base/index.ts'
import type { HttpHead } from './http-exchange.ts'
import type { Route } from './route.ts'

export interface RouteMatch {
  readonly route: Route
  /** The values of the names in the path, in order and decoded; empty for a fixed path. */
  readonly names: readonly string[]
}

type Methods = Map<string, Route>

interface Template {
  readonly path: string
  /** Null: a name. */
  readonly segments: readonly (string | null)[]
  readonly takesRest: boolean
  readonly methods: Methods
}

interface Found {
  readonly methods: Methods
  readonly names: readonly string[]
}

export class RouteTable {
  readonly #whole = new Map<string, Methods>()
  readonly #templates: Template[] = []

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      const methods = this.#methodsFor(route.path)
      assert(!methods.has(route.method), `the method and path must be unique: ${route.path}`)
      methods.set(route.method, route)
    }
    this.#templates.sort((a, b) => b.segments.length - a.segments.length)
  }

  /** Throws `request.not_found` or `request.method_not_allowed`. */
  find({ method, path }: HttpHead): RouteMatch {
    const found = this.#lookUp(path)
    if (found === null) {
      throw new BatonError('request.not_found', `Route not found: ${method} ${path}`)
    }
    const { methods, names } = found
    const route = methods.get(method) ?? (method === 'HEAD' ? methods.get('GET') : undefined)
    if (route !== undefined) return { route, names }
    const allowed = namesOf(methods).join(', ')
    const text = `${method} is not allowed here, use ${allowed}`
    throw new BatonError('request.method_not_allowed', text, { data: { allowed } })
  }

  /** The methods of a path; empty when there is no such path. */
  methodsOf(path: string): readonly string[] {
    const found = this.#lookUp(path)
    return found === null ? [] : namesOf(found.methods)
  }

  #lookUp(path: string): Found | null {
    const methods = this.#whole.get(path)
    if (methods !== undefined) return { methods, names: [] }
    const segments = path.split('/')
    for (const template of this.#templates) {
      const names = namesIn(template, segments)
      if (names !== null) return { methods: template.methods, names: names.map(decoded) }
    }
    return null
  }

  #methodsFor(path: string): Methods {
    const known =
      this.#whole.get(path) ?? this.#templates.find((template) => template.path === path)?.methods
    if (known !== undefined) return known
    const methods: Methods = new Map()
    if (!path.includes('{')) {
      this.#whole.set(path, methods)
      return methods
    }
    const segments = path.split('/').map((text) => (text.startsWith('{') ? null : text))
    this.#templates.push({ path, segments, takesRest: path.endsWith('...}'), methods })
    return methods
  }
}

/** Null: the path does not match. A name does not match an empty text. */
function namesIn(
  { segments, takesRest }: Template,
  given: readonly string[],
): readonly string[] | null {
  const { length } = segments
  if (takesRest ? given.length < length : given.length !== length) return null
  const names: string[] = []
  for (const [i, segment] of segments.entries()) {
    const text = takesRest && i === length - 1 ? given.slice(i).join('/') : given[i]!
    if (segment === null ? text === '' : text !== segment) return null
    if (segment === null) names.push(text)
  }
  return names
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

/** Whatever answers GET answers HEAD, too. */
function namesOf(methods: Methods): string[] {
  return [...methods.keys()].flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : [name]))
}
