/** Flattens a JSON schema: `allOf`, and keywords next to `$ref`, are merged into one equivalent schema. */
import { invalidSchema } from '../gbnf/grammar-refusal.ts'
import { resolvePointer } from './json-pointer.ts'
import { ENFORCED, isDescribing, isNever, isStore } from './json-schema-keywords.ts'
import { listOf } from './json-schema-list.ts'
import { merged } from './json-schema-merge.ts'
import type { SchemaPlace } from './json-schema-place.ts'
import { isSchema } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'
import type { SchemaContext } from './schema-context.ts'

export class SchemaFlattener {
  readonly #root: unknown
  readonly #place: SchemaPlace
  readonly #context: SchemaContext

  constructor(root: unknown, place: SchemaPlace, context: SchemaContext) {
    this.#root = root
    this.#place = place
    this.#context = context
  }

  /** The schema without `allOf`, and without anything next to `$ref`. */
  flat(given: unknown): Schema | boolean {
    if (!isSchema(given)) throw invalidSchema('a schema must be an object, true or false')
    if (isNever(given)) return false
    const keywords = Object.keys(given)
    this.#context.spend(1 + keywords.length)
    for (const keyword of keywords) {
      if (!ENFORCED.has(keyword) && !isDescribing(keyword))
        this.#context.drop(keyword, `'${keyword}'`)
    }
    const { allOf, ...rest } = withNewBounds(given)
    const schema = Object.fromEntries(
      Object.entries(rest).filter(([keyword]) => ENFORCED.has(keyword) && !isStore(keyword)),
    )
    if ('$ref' in schema && typeof schema['$ref'] !== 'string')
      throw invalidSchema("'$ref' is not a JSON pointer into the schema")
    const parts = allOf === undefined ? [] : listOf(allOf, 'allOf')
    if (parts.length === 0 && (schema['$ref'] === undefined || Object.keys(schema).length === 1))
      return schema
    return this.#place.inside('allOf', () => this.#conjunction(schema, parts))
  }

  #conjunction(schema: Schema, parts: readonly unknown[]): Schema | boolean {
    const { $ref: pointer, ...rest } = schema
    const targets =
      pointer === undefined ? [] : [resolvePointer(this.#root, pointer, this.#context.drop)]
    if (Object.keys(rest).length === 0 && targets.length + parts.length === 1) {
      const [only] = [...targets, ...parts]
      return typeof only === 'boolean' ? only : this.flat(only)
    }
    let all: Schema | boolean = rest
    for (const part of [...targets, ...parts]) {
      const said = typeof part === 'boolean' ? part : this.resolved(part)
      all = merged(all, said, this.#context)
    }
    if (typeof all === 'boolean') return all
    // With two lists of alternatives, one is handled first and the other stays in `allOf`.
    return 'allOf' in all && ('anyOf' in all || 'oneOf' in all) ? all : this.flat(all)
  }

  /** Follows a schema that is only a reference. */
  resolved(given: unknown): Schema | boolean {
    const schema = this.flat(given)
    if (typeof schema === 'boolean' || typeof schema['$ref'] !== 'string') return schema
    const { $ref: pointer } = schema
    const target = resolvePointer(this.#root, pointer, this.#context.drop)
    if (typeof target === 'boolean') return target
    return this.#place.inside('$ref', () => this.resolved(target))
  }

  both(rest: Schema, option: unknown): Schema | boolean {
    return merged(rest, typeof option === 'boolean' ? option : this.resolved(option), this.#context)
  }
}

/** Before draft 6 `exclusiveMinimum: true` stood beside `minimum`. */
function withNewBounds(schema: Schema): Schema {
  if (
    typeof schema['exclusiveMinimum'] !== 'boolean' &&
    typeof schema['exclusiveMaximum'] !== 'boolean'
  )
    return schema
  const all: Record<string, unknown> = { ...schema }
  for (const [open, strict] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    if (typeof all[strict] !== 'boolean') continue
    const { [strict]: isStrict, [open]: bound } = all
    delete all[strict]
    if (isStrict !== true || bound === undefined) continue
    all[strict] = bound
    delete all[open]
  }
  return all
}
