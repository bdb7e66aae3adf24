import { describe, expect, it } from 'vitest'
import { requestFindings } from './request-checks.ts'

function series(status: number, code: string, count: number): string {
  return `baton_frontend_requests_total{model="m",endpoint="chat_completions",request_type="unary",status="${status}",error_type="${code}"} ${count}\n`
}

describe('requestFindings', () => {
  it.each([
    ['no requests', '', []],
    [
      'errors of clients only',
      series(200, '', 5) + series(400, 'request.invalid_argument', 50),
      [],
    ],
    [
      'a few errors of the server',
      series(200, '', 99) + series(503, 'kv.transfer_failed', 1),
      [['ok', '1 of 100 requests failed since the start: kv.transfer_failed (1)']],
    ],
    [
      'a stream that failed after its first token',
      series(200, 'worker.lost', 1),
      [['fault', '1 of 1 request failed since the start: worker.lost (1)']],
    ],
    [
      'many errors of the server',
      series(200, '', 4) +
        series(500, 'runtime.internal', 1) +
        series(503, 'kv.transfer_failed', 2),
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
