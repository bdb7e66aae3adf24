/** Which JSON Schema keywords the grammar enforces, and which are only descriptive. All others are refused by name. */
import { isRecord } from '../../base/index.ts'

export const ENFORCED: ReadonlySet<string> = new Set(
  (
    '$ref $defs definitions type enum const anyOf oneOf allOf properties required ' +
    'additionalProperties patternProperties propertyNames minProperties maxProperties ' +
    'items prefixItems additionalItems minItems maxItems uniqueItems minLength maxLength ' +
    'pattern format multipleOf minimum maximum exclusiveMinimum exclusiveMaximum'
  ).split(' '),
)

const DESCRIBING: ReadonlySet<string> = new Set(
  (
    '$schema $id $comment $anchor $vocabulary title description default example examples ' +
    'deprecated readOnly writeOnly nullable strict name contentEncoding contentMediaType ' +
    'contentSchema discriminator externalDocs propertyOrdering xml'
  ).split(' '),
)

export function isDescribing(keyword: string): boolean {
  return DESCRIBING.has(keyword) || keyword.startsWith('x-')
}

/** Keywords that only contain schemas for references. */
export function isStore(keyword: string): boolean {
  return keyword === '$defs' || keyword === 'definitions'
}

/** Libraries write `{"not": {}}` for "never valid". */
export function isNever(schema: unknown): boolean {
  if (!isRecord(schema)) return schema === false
  const { not } = schema
  return not === true || (isRecord(not) && Object.keys(not).length === 0)
}
