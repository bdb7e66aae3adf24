import { describe, expect, it } from 'vitest'
import { nameAsWritten } from './as-written.ts'
import { resolveConfig } from './resolve-config.ts'

describe('nameAsWritten', () => {
  const options = resolveConfig({
    flags: { port: 1 },
    environment: { BATON_STATE: 'x', BATON_FILES_DIR: 'x' },
  })

  it.each([
    ['a variable', '--state is invalid', 'BATON_STATE is invalid'],
    ['a variable of two words', '--files-dir x: no', 'BATON_FILES_DIR x: no'],
    ['a flag', '--port: no', '--port: no'],
    ['a default', '--host 0.0.0.0: no', '--host 0.0.0.0: no'],
    ['no option', '--frobnicate: no', '--frobnicate: no'],
    ['not at the start', 'no --state', 'no --state'],
  ])('%s', (_, message, expected) => {
    expect(nameAsWritten(message, options)).toBe(expected)
  })
})
