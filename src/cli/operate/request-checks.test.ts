import { describe, expect, it } from 'vitest'
import { requestFindings } from './request-checks.ts'

function series(code: string, count: number): string {
  const status = code === '' ? 'success' : 'error'
  return `baton_frontend_requests_total{model="m",endpoint="chat_completions",request_type="unary",status="${status}",error_type="${code}"} ${count}\n`
}

describe('requestFindings', () => {
  it.each([
    ['no requests', '', []],
    [
      'errors of clients only',
      series('', 5) +
        series('request.invalid_argument', 50) +
        series('request.cancelled', 50) +
        series('backend.invalid_argument', 50),
      [],
    ],
    [
      'a few errors of the server',
      series('', 99) + series('kv.transfer_failed', 1),
      [['ok', '1 of 100 requests failed since the start: kv.transfer_failed (1)']],
    ],
    [
      'an error of another version',
      series('worker.lost', 1),
      [['fault', '1 of 1 request failed since the start: worker.lost (1)']],
    ],
    [
      'many errors of the server',
      series('', 4) + series('runtime.internal', 1) + series('kv.transfer_failed', 2),
      [
        [
          'fault',
          '3 of 7 requests failed since the start: kv.transfer_failed (2), runtime.internal (1)',
        ],
      ],
    ],
  ])('%s', (_, metrics, expected) => {
    expect(requestFindings(metrics).map(({ level, text }) => [level, text])).toEqual(expected)
  })
})
