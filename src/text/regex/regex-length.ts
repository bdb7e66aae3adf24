/** Bounds on the length of the matches of a regular expression. */
import type { Regex } from './regex-syntax.ts'

/** The number of repetitions of parts within repetitions, when expanded; 0 if nothing is nested. */
export function nestedRepeats(regex: Regex): number {
  switch (regex.kind) {
    case 'sequence':
      return Math.max(0, ...regex.parts.map(nestedRepeats))
    case 'choice':
      return Math.max(0, ...regex.options.map(nestedRepeats))
    case 'repeat': {
      const inside = largestRepeat(regex.part)
      return inside === 0 ? 0 : inside * (regex.most ?? regex.least)
    }
    default:
      return 0
  }
}

function largestRepeat(regex: Regex): number {
  switch (regex.kind) {
    case 'sequence':
      return Math.max(0, ...regex.parts.map(largestRepeat))
    case 'choice':
      return Math.max(0, ...regex.options.map(largestRepeat))
    case 'repeat':
      return (regex.most ?? regex.least) * Math.max(1, largestRepeat(regex.part))
    default:
      return 0
  }
}

/** Minimum and maximum number of characters of a match; `most` undefined: no limit. */
export function regexLength(regex: Regex): {
  readonly least: number
  readonly most: number | undefined
} {
  switch (regex.kind) {
    case 'set':
      return { least: 1, most: 1 }
    case 'begin':
    case 'end':
    case 'look':
      return { least: 0, most: 0 }
    case 'sequence':
      return regex.parts.map(regexLength).reduce(
        (sum, part) => ({
          least: sum.least + part.least,
          most:
            sum.most === undefined || part.most === undefined ? undefined : sum.most + part.most,
        }),
        { least: 0, most: 0 as number | undefined },
      )
    case 'choice': {
      const options = regex.options.map(regexLength)
      const most = options.map((option) => option.most)
      return {
        least: Math.min(...options.map((option) => option.least)),
        most: most.includes(undefined) ? undefined : Math.max(...most.map((value) => value ?? 0)),
      }
    }
    case 'repeat': {
      if (regex.most === 0) return { least: 0, most: 0 }
      const { least, most } = regexLength(regex.part)
      const isOpen = regex.most === undefined || most === undefined
      return {
        least: least * regex.least,
        most: isOpen && most !== 0 ? undefined : (most ?? 0) * (regex.most ?? 0),
      }
    }
  }
}
