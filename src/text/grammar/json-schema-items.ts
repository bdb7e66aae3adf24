/** The items of a list in a JSON schema: by position, and the rest. */
import { listOf } from './json-schema-list.ts'
import type { Schema } from './json-schema-types.ts'

interface Items {
  readonly places: readonly unknown[]
  readonly rest: unknown
}

export function itemsOf(schema: Schema): Items {
  const { items = true } = schema
  // Before draft 2020-12 `items` could be a list of schemas.
  if (Array.isArray(items)) return { places: items, rest: schema['additionalItems'] ?? true }
  return { places: listOf(schema['prefixItems'] ?? [], 'prefixItems'), rest: items }
}

/** Writes to `all` the items that both schemas allow. */
export function mergeItems(
  left: Schema,
  right: Schema,
  all: Record<string, unknown>,
  merged: (one: unknown, other: unknown) => unknown,
): void {
  const [one, other] = [itemsOf(left), itemsOf(right)]
  const count = Math.max(one.places.length, other.places.length)
  const at = ({ places, rest }: Items, index: number): unknown =>
    index < places.length ? places[index] : rest
  const places = Array.from({ length: count }, (_, index) =>
    merged(at(one, index), at(other, index)),
  )
  delete all['additionalItems']
  delete all['prefixItems']
  if (places.length > 0) all['prefixItems'] = places
  all['items'] = merged(one.rest, other.rest)
}
