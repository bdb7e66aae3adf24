import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { StopStrings } from './stop-strings.ts'
import type { StopStringsOptions } from './stop-strings.ts'

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/text-stream.json', import.meta.url), 'utf8'),
) as { stopTokens: string[]; stop: { stop: string[]; text: string; isStopped: boolean }[] }

interface Outcome {
  readonly text: string
  readonly stopped: string | null
}

function run(
  stops: readonly string[],
  texts: readonly string[],
  options?: StopStringsOptions,
): Outcome {
  const stopStrings = new StopStrings(stops, options)
  let text = ''
  for (const piece of texts) {
    const { emit, stopped } = stopStrings.push(piece)
    text += emit
    if (stopped !== null) return { text, stopped }
  }
  return { text: text + stopStrings.flush(), stopped: null }
}

/** One character after the other: the first stop string that is complete counts. */
function naive(stops: readonly string[], text: string): Outcome {
  for (let end = 1; end <= text.length; end++) {
    const found = stops
      .filter((stop) => stop !== '' && text.slice(0, end).endsWith(stop))
      .toSorted((a, b) => b.length - a.length)[0]
    if (found !== undefined) return { text: text.slice(0, end - found.length), stopped: found }
  }
  return { text, stopped: null }
}

describe('StopStrings', () => {
  it.each(vectors.stop)('recorded $stop - same text', ({ stop, text, isStopped }) => {
    const outcome = run(stop, vectors.stopTokens)
    expect(outcome.text).toBe(text)
    expect(outcome.stopped !== null).toBe(isStopped)
  })

  it('random text in random pieces - same result as searching the whole text', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '🌍'), maxLength: 6 })
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 4 }), fc.array(letters), (stops, pieces) => {
        expect(run(stops, pieces)).toEqual(naive(stops, pieces.join('')))
      }),
    )
  })

  it('text that cannot become a stop string - is never withheld', () => {
    const stopStrings = new StopStrings(['</end>'])
    expect(stopStrings.push('a < b').emit).toBe('a < b')
    expect(stopStrings.push(' <').emit).toBe(' ')
    expect(stopStrings.push('/en').emit).toBe('')
    expect(stopStrings.push('try').emit).toBe('</entry')
  })

  it('includeInOutput - the text ends with the stop string', () => {
    expect(run(['two'], ['one tw', 'o three'], { includeInOutput: true })).toEqual({
      text: 'one two',
      stopped: 'two',
    })
  })

  it('minTokens - stop strings within the first tokens are plain text', () => {
    const tokens = ['stop', ' a', ' st', 'op', ' b']
    expect(run(['stop'], tokens, { minTokens: 1 })).toEqual({ text: 'stop a ', stopped: 'stop' })
    expect(run(['stop'], tokens, { minTokens: 3 })).toEqual({
      text: 'stop a stop b',
      stopped: null,
    })
  })

  it('no stop strings, or empty ones - all text is emitted', () => {
    expect(run([''], ['abc'])).toEqual({ text: 'abc', stopped: null })
  })
})
