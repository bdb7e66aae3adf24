import { expect, it } from 'vitest'
import { takesColor, takesEscapes } from './terminal.ts'

it.each([
  ['a terminal', { isTTY: true }, { TERM: 'xterm' }, true, true],
  ['a terminal of Windows', { isTTY: true }, {}, true, true],
  ['NO_COLOR', { isTTY: true }, { NO_COLOR: '1' }, true, false],
  ['an empty NO_COLOR', { isTTY: true }, { NO_COLOR: '' }, true, true],
  ['a dumb terminal', { isTTY: true }, { TERM: 'dumb' }, false, false],
  ['a pipe', {}, { TERM: 'xterm' }, false, false],
])('%s - escape sequences and colours', (_, output, environment, escapes, color) => {
  expect([takesEscapes(output, environment), takesColor(output, environment)]).toEqual([
    escapes,
    color,
  ])
})
