import { describe, expect, it } from 'vitest'
import { PACKAGE_ROOT } from '../../os/index.ts'
import { isOfModule } from './stray-errors.ts'

function withStack(...calls: string[]): Error {
  const error = new Error('x')
  error.stack = ['Error: x in /user/engine/mine.js', ...calls.map((call) => `    at ${call}`)].join(
    '\n',
  )
  return error
}

const UNREADABLE = new Proxy(
  {},
  {
    getPrototypeOf: () => {
      throw new Error('trap')
    },
  },
)

describe('isOfModule', () => {
  it.each([
    ['a call in the module', withStack('f (file:///user/engine/mine.js:1:2)'), true],
    ['a CommonJS module', withStack('f (/user/engine/mine.cjs:1:2)'), true],
    [
      'a package that the module calls',
      withStack('g (/user/lib/dep.js:1:1)', 'async f (/user/engine/mine.js:3:4)'),
      true,
    ],
    ['a text that was thrown', 'just text', true],
    ['a call of Baton alone', withStack(`f (${PACKAGE_ROOT}/dist/bin/baton.js:1:2)`), false],
    ['the path in the message only', withStack(`f (${PACKAGE_ROOT}/dist/x.js:1:2)`), false],
    [
      'an error of the system, as of a socket without a listener',
      withStack('c (node:net:1:2)'),
      true,
    ],
    ['no stack', withStack(), true],
    ['a stack that is no text', Object.assign(new Error('x'), { stack: [{}] }), true],
    ['a proxy that cannot be read', UNREADABLE, true],
  ])('%s', (_, error, expected) => {
    expect(isOfModule(error, '/user/engine/')).toBe(expected)
  })

  it("Baton installed beside the module - its errors do not count as the module's", () => {
    const error = withStack(`f (${PACKAGE_ROOT}/dist/bin/baton.js:1:2)`)
    expect(isOfModule(error, '/')).toBe(false)
  })
})
