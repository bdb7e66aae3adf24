import { pino } from 'pino'
import { expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import type { ErrorValue } from '../../base/index.ts'
import { withEngineAnswer } from '../../request/index.ts'
import type { WorkerEvent } from '../../worker/index.ts'
import { workerLog } from './worker-log.ts'

function lineOf(error: ErrorValue): string {
  return logged({ kind: 'request-refused', requestId: 'r', error })
}

function logged(event: WorkerEvent): string {
  let line = ''
  const log = workerLog(pino({ level: 'debug' }, { write: (text: string) => (line += text) }))
  log(event)
  return line
}

it('the log of a worker - does not contain what an engine quotes of a refused request', () => {
  const message = "the engine refused the request: [{'loc': 'x', 'input': {'prompt': 'a secret'}}]"
  const line = lineOf({ code: 'backend.invalid_argument', message })
  expect(line).toContain('the engine refused the request')
  expect(line).not.toContain('secret')
})

it('the log of a worker - does not contain the answer of an engine that failed', () => {
  const failed = new BatonError('backend.engine_shutdown', 'the engine failed')
  const answer = { status: 500, headers: {}, body: '{"error":"cannot parse: a secret"}' }
  const line = lineOf(withEngineAnswer(failed, answer).toValue())
  expect(line).toContain('the engine failed')
  expect(line).toContain('500')
  expect(line).not.toContain('secret')
})

it('the log of a worker - contains the whole text of a failure', () => {
  expect(lineOf({ code: 'backend.unknown', message: 'disk "a" is full' })).toContain('is full')
})

it('the log of a worker - is a sentence; the name of the event is a field', () => {
  const error = { code: 'transport.unauthenticated', message: 'wrong' } as const
  expect(JSON.parse(logged({ kind: 'frontend-refused', error }))).toMatchObject({
    event: 'frontend-refused',
    msg: expect.stringMatching(/^connection refused: the peer failed to authenticate/),
  })
  expect(logged({ kind: 'engine-away', away: true })).toContain('the engine is unavailable')
  const stage = { stage: 'stop_admission', reason: 'timed_out', elapsedMs: 1 } as const
  expect(logged({ kind: 'stage', ...stage })).toContain('shutdown stage stop admission: timed out')
})
