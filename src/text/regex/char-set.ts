/** A set of Unicode characters as sorted, non-adjacent ranges of code points. Surrogates are not characters. */

export type CharSet = readonly (readonly [first: number, last: number])[]

const CODE_POINT_MAX = 0x10ffff

export const ANY_CHARACTER: CharSet = [
  [0, 0xd7ff],
  [0xe000, CODE_POINT_MAX],
]

export function charSet(...ranges: readonly (readonly [number, number])[]): CharSet {
  const sorted = ranges.toSorted((a, b) => a[0] - b[0])
  const joined: [number, number][] = []
  for (const [first, last] of sorted) {
    const before = joined.at(-1)
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last)
    else joined.push([first, last])
  }
  return joined
}

/** The set of characters of a text. */
export function charsOf(text: string): CharSet {
  return charSet(
    ...Array.from(text, (character): [number, number] => {
      const code = character.codePointAt(0) ?? 0
      return [code, code]
    }),
  )
}

export function union(...sets: readonly CharSet[]): CharSet {
  return charSet(...sets.flat())
}

export function intersection(a: CharSet, b: CharSet): CharSet {
  return a.flatMap(([first, last]) =>
    b.flatMap(([otherFirst, otherLast]): [number, number][] => {
      const low = Math.max(first, otherFirst)
      const high = Math.min(last, otherLast)
      return low <= high ? [[low, high]] : []
    }),
  )
}

export function complement(set: CharSet): CharSet {
  const rest: [number, number][] = []
  let from = 0
  for (const [first, last] of set) {
    if (first > from) rest.push([from, first - 1])
    from = last + 1
  }
  if (from <= CODE_POINT_MAX) rest.push([from, CODE_POINT_MAX])
  return intersection(rest, ANY_CHARACTER)
}

export function without(set: CharSet, other: CharSet): CharSet {
  return intersection(set, complement(other))
}
