import { pino } from 'pino'
import { expect, it } from 'vitest'
import type { ErrorValue } from '../../base/index.ts'
import { workerLog } from './worker-log.ts'

function lineOf(error: ErrorValue): string {
  let line = ''
  const log = workerLog(pino({ level: 'debug' }, { write: (text: string) => (line += text) }))
  log({ kind: 'request-refused', requestId: 'r', error })
  return line
}

it('the log of a worker - does not contain what an engine quotes of a refused request', () => {
  const message = "the engine refused the request: [{'loc': 'x', 'input': {'prompt': 'a secret'}}]"
  const line = lineOf({ code: 'backend.invalid_argument', message })
  expect(line).toContain('the engine refused the request')
  expect(line).not.toContain('secret')
})

it('the log of a worker - contains the whole text of a failure', () => {
  expect(lineOf({ code: 'backend.unknown', message: 'disk "a" is full' })).toContain('is full')
})
