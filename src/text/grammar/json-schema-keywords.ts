/** Which keywords of JSON Schema a grammar enforces, and which only describe. Every other one is refused by name. */

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

/** Where a schema keeps others that it refers to; they say nothing themselves. */
export function isStore(keyword: string): boolean {
  return keyword === '$defs' || keyword === 'definitions'
}
