/** The members of a JSON object with named properties as GBNF, in the order of the schema. */

export interface Pair {
  /** The rule for `"name": value`. */
  readonly rule: string
  readonly isRequired: boolean
}

/** With at least `least` and at most `most` members. Null: that is not possible. */
export function pairsGbnf(
  pairs: readonly Pair[],
  [least, most]: readonly [least: number, most: number],
  addRule: (body: string) => string,
): string | null {
  const required = pairs.filter(({ isRequired }) => isRequired).length
  if (least > pairs.length || most < required) return null
  return least <= required && most >= pairs.length
    ? anyNumber(pairs, addRule)
    : counted(pairs, [least, most], addRule)
}

function anyNumber(pairs: readonly Pair[], addRule: (body: string) => string): string {
  let more = '""'
  const firsts: string[] = []
  // From the last property to the first: for each, what may follow with and without a preceding property.
  for (const { rule, isRequired } of pairs.toReversed()) {
    if (isRequired) firsts.length = 0
    firsts.unshift(`${rule} ${more}`)
    more = addRule(isRequired ? `"," ws ${rule} ${more}` : `( "," ws ${rule} )? ${more}`)
  }
  if (!pairs.some(({ isRequired }) => isRequired)) firsts.push('""')
  return `( ${firsts.join(' | ')} )`
}

/** One rule for each property and number of members before it. */
function counted(
  pairs: readonly Pair[],
  [least, most]: readonly [number, number],
  addRule: (body: string) => string,
): string | null {
  // What follows the last property, by the number of members before.
  let after: (string | null)[] = Array.from({ length: pairs.length + 1 }, (_, count) =>
    count >= least && count <= most ? '""' : null,
  )
  for (const { rule, isRequired } of pairs.toReversed()) {
    const before = after
    after = before.map((without, count) => {
      const rest = before[count + 1]
      const options = [
        rest == null ? null : `${count === 0 ? '' : '"," ws '}${rule} ${rest}`,
        isRequired ? null : without,
      ].filter((option) => option !== null)
      if (options.length === 0) return null
      return options.length === 1 && options[0] === '""' ? '""' : addRule(options.join(' | '))
    })
  }
  return after[0] ?? null
}
