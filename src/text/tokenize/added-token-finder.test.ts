import { expect, it } from 'vitest'
import { randomInt, seededRandom } from '../../base/index.ts'
import { AddedTokenFinder } from './added-token-finder.ts'
import type { AddedToken } from './tokenizer.ts'

const SEED = Date.now() % 1e9
const TEXTS = [
  '<|a|>',
  '<|a',
  '<think>',
  '<t',
  '[INST]',
  '$^',
  'a.b',
  '\\d+',
  '(x)*',
  '\n\n',
  '😀!',
  '|',
  '{2}',
  '-]',
]
const tokens: AddedToken[] = TEXTS.map((text, id) => ({ id, text, control: id % 3 === 0 }))

/** Each position is compared with each token. */
function expectedParts(text: string, special: boolean, literalEnd: number): (string | number)[] {
  const longestFirst = tokens.toSorted((a, b) => b.text.length - a.text.length)
  const parts: (string | number)[] = []
  let plain = ''
  for (let at = 0; at < text.length;) {
    const found = longestFirst.find(
      (token) =>
        text.startsWith(token.text, at) && (!token.control || (special && at >= literalEnd)),
    )
    if (found !== undefined && plain !== '') parts.push(plain)
    if (found !== undefined) parts.push(found.id)
    plain = found === undefined ? plain + text.charAt(at) : ''
    at += found?.text.length ?? 1
  }
  return plain === '' ? parts : [...parts, plain]
}

it(`tokens of characters that mean something in a pattern, and beginnings of tokens, seed ${SEED} - those at each position, the longest first`, () => {
  const random = seededRandom(SEED)
  const finder = new AddedTokenFinder(tokens)
  const pick = (): string => TEXTS[randomInt(random, TEXTS.length)] ?? ''
  for (let round = 0; round < 2000; round++) {
    const pieces = Array.from({ length: randomInt(random, 12) }, () => {
      const whole = pick()
      return randomInt(random, 2) === 0 ? whole : whole.slice(0, randomInt(random, whole.length))
    })
    const text = pieces.join(['', ' ', 'x'][randomInt(random, 3)])
    const special = randomInt(random, 3) > 0
    const literalEnd = randomInt(random, text.length + 1)
    const parts: (string | number)[] = []
    finder.visit(
      text,
      { special, literalRanges: [0, literalEnd] },
      {
        onText: (stretch) => parts.push(stretch),
        onToken: ({ id }) => parts.push(id),
      },
    )
    expect(parts).toEqual(expectedParts(text, special, literalEnd))
  }
})
