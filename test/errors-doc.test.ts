import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { BatonError, ERROR_CODES } from '../src/base/index.ts'
import type { ErrorCode } from '../src/base/index.ts'
import { errorTypeOf } from '../src/api/index.ts'

const page = readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8')

function tableRows(header: string): string[][] {
  const [, rest = ''] = page.split(header)
  const lines = rest.split('\n').slice(2)
  const end = lines.findIndex((line) => !line.startsWith('|'))
  return lines.slice(0, end).map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  )
}

describe('docs/errors.md', () => {
  it('error codes - are listed in the order of the table with the same properties', () => {
    const rows = tableRows('| code | class | status | retry | migrates | meaning |')
    const expected = Object.entries(ERROR_CODES).map(([code, row]) => [
      `\`${code}\``,
      row.class,
      String(row.httpStatus),
      row.retryable ? 'yes' : 'no',
      row.migratable ? 'yes' : 'no',
      row.meaning,
    ])
    expect(rows).toEqual(expected)
  })

  it('error classes - the page has the type of every class', () => {
    const types = new Map(
      tableRows('| class | type |').flatMap(([classes = '', type = '']) =>
        classes.split(', ').map((name) => [name, type.replaceAll('`', '')] as const),
      ),
    )
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
      const error = new BatonError(code, 'x')
      expect([error.row.class, types.get(error.row.class)]).toEqual([
        error.row.class,
        errorTypeOf(error),
      ])
    }
  })
})

describe('error codes', () => {
  it('codes that may migrate - may also be retried', () => {
    for (const [code, row] of Object.entries(ERROR_CODES)) {
      expect([code, row.migratable && !row.retryable]).toEqual([code, false])
    }
  })

  it('errors as plain data - survive serialisation; unknown codes become backend.unknown', () => {
    const error = new BatonError('kv.offer_gone', 'late', { data: { offerId: 'x' } })
    const copy = BatonError.fromValue(JSON.parse(JSON.stringify(error.toValue())))
    expect([copy.code, copy.message, copy.data]).toEqual([error.code, 'late', { offerId: 'x' }])
    expect(BatonError.fromValue({ code: 'no.such', message: 'm' }).code).toBe('backend.unknown')
  })
})
