/**
 * Narrows a regular expression to matches with a length within bounds: tighter repetition counts, and alternatives
 * that cannot fit are removed. Every match of the result is a match of the original.
 */
import { regexLength } from './regex-length.ts'
import { REPEAT_MAX } from './regex-syntax.ts'
import type { Regex } from './regex-syntax.ts'

const COUNTS_MAX = 16
/** Limits the search, because nested parts can be combined in very many ways. */
const STEPS_MAX = 2000

/** Null: no match with such a length was found, which does not prove that there is none. */
export function fittedRegex(regex: Regex, least: number, most: number): Regex | null {
  return fitted(regex, least, most, { left: STEPS_MAX })
}

interface Steps {
  left: number
}

function fitted(regex: Regex, least: number, most: number, steps: Steps): Regex | null {
  if (steps.left-- <= 0) return null
  const own = regexLength(regex)
  if (own.least >= least && (own.most ?? Infinity) <= most) return regex
  if (own.least > most || (own.most ?? Infinity) < least) return null
  switch (regex.kind) {
    case 'choice': {
      const options = regex.options
        .map((option) => fitted(option, least, most, steps))
        .filter((option) => option !== null)
      return options.length === 0 ? null : { kind: 'choice', options }
    }
    case 'sequence':
      return fittedSequence(regex.parts, least, most, steps)
    case 'repeat':
      return fittedRepeat(regex, least, most, steps)
    default:
      return null
  }
}

/** Every part gets its minimum length and a fair share of the rest; then the first parts are extended. */
function fittedSequence(
  parts: readonly Regex[],
  least: number,
  most: number,
  steps: Steps,
): Regex | null {
  const lengths = parts.map(regexLength)
  let spare = most - lengths.reduce((sum, length) => sum + length.least, 0)
  let sharing = lengths.filter((length) => length.most !== length.least).length
  const fittedParts: Regex[] = []
  for (const [index, part] of parts.entries()) {
    const length = lengths[index] ?? { least: 0, most: 0 }
    if (length.most === length.least) {
      fittedParts.push(part)
      continue
    }
    const share = Math.floor(spare / sharing)
    const one = fitted(part, length.least, length.least + share, steps)
    if (one === null) return null
    fittedParts.push(one)
    spare -= (regexLength(one).most ?? 0) - length.least
    sharing -= 1
  }
  return lengthened(fittedParts, least, steps)
}

function lengthened(parts: readonly Regex[], least: number, steps: Steps): Regex | null {
  let missing = least - parts.reduce((sum, part) => sum + regexLength(part).least, 0)
  const longer = parts.map((part) => {
    const length = regexLength(part)
    const more = Math.min(missing, (length.most ?? 0) - length.least)
    const one = more > 0 ? fitted(part, length.least + more, length.most ?? 0, steps) : part
    if (one === null) return part
    missing -= regexLength(one).least - length.least
    return one
  })
  return missing > 0 ? null : { kind: 'sequence', parts: longer }
}

function fittedRepeat(
  regex: Extract<Regex, { kind: 'repeat' }>,
  least: number,
  most: number,
  steps: Steps,
): Regex | null {
  // Each repetition gets at most its share at the minimum number of repetitions.
  const each = Math.floor(most / Math.max(1, regex.least))
  const part = fitted(regex.part, regexLength(regex.part).least, each, steps)
  if (part === null) return regex.least === 0 && least === 0 ? { ...regex, most: 0 } : null
  const length = regexLength(part)
  if (length.most === undefined || length.most === 0) return null
  const fewest = length.least === 0 ? regex.least : Math.ceil(least / length.least)
  const counts = {
    least: Math.max(regex.least, fewest),
    most: Math.min(regex.most ?? REPEAT_MAX, Math.floor(most / length.most)),
  }
  const isCovered = counts.least <= counts.most && (length.least > 0 || least === 0)
  return isCovered ? { ...regex, part, ...counts } : fittedByCount(regex, least, most, steps)
}

/** For each number of repetitions, parts of about equal length. */
function fittedByCount(
  regex: Extract<Regex, { kind: 'repeat' }>,
  least: number,
  most: number,
  steps: Steps,
): Regex | null {
  const options: Regex[] = []
  const countMax = Math.min(regex.most ?? Infinity, most, COUNTS_MAX)
  for (let count = Math.max(1, regex.least); count <= countMax; count++) {
    const part = fitted(regex.part, Math.ceil(least / count), Math.floor(most / count), steps)
    if (part !== null) options.push({ kind: 'repeat', part, least: count, most: count })
  }
  return options.length === 0 ? null : { kind: 'choice', options }
}
