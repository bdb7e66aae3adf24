import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import type { FrontendEvent } from '../../frontend/index.ts'
import { logLine } from './log-line.ts'
import { RequestPhases } from './request-phases.ts'

const line = (facts: object): string =>
  JSON.stringify({ level: 40, time: 1_700_000_000_123, ...facts, msg: 'call refused' })

describe('logLine', () => {
  it('a line - time, level, text, facts; numbers are short, texts with spaces are quoted', () => {
    expect(logLine(line({ status: 401, ms: 1.23456, why: 'no key', on: true }), false)).toBe(
      '22:13:20.123 WARN  call refused  status=401 ms=1.23 why="no key" on=true\n',
    )
  })

  it('colours - only when they are enabled', () => {
    expect(logLine(line({}), true)).toContain('\u001B[33mWARN \u001B[0m')
    expect(logLine(line({}), false)).not.toContain('\u001B')
  })

  it('text that a client chose - does not move the cursor', () => {
    const text = logLine(line({ model: 'a\u001B[2Jb\u009Bc\u202Ed', path: '/x\r\ny' }), false)
    // oxlint-disable-next-line no-control-regex -- the test checks that control characters are absent
    expect(text.trimEnd()).not.toMatch(/[\u0000-\u001F\u007F-\u009F\u202E]/)
  })

  it.each(['', 'x', '5', 'null'])(
    '%j - is not a line of the logger and stays unchanged',
    (text) => {
      expect(logLine(text, true)).toBe(text)
    },
  )
})

describe('RequestPhases', () => {
  const worker = workerIdOf(7)
  const told = (phases: RequestPhases, event: object) =>
    phases.observe({ atMs: 0, ...event } as FrontendEvent, 'r')

  it('a request with two legs - its workers and the time of each phase are logged once at its end', () => {
    const phases = new RequestPhases()
    const other = workerIdOf(8)
    for (const event of [
      { kind: 'received' },
      { kind: 'routed', phase: 'prefill', workerId: worker, queuedMs: 1 },
      { kind: 'prefillStarted', workerId: worker, queuedMs: 2 },
      { kind: 'prefillDone', workerId: worker, elapsedMs: 3 },
      { kind: 'routed', phase: 'decode', workerId: other, queuedMs: 0.5 },
      { kind: 'kvTransferred', workerId: other, elapsedMs: 4 },
      { kind: 'decodeStarted', workerId: other, queuedMs: 5 },
    ])
      expect(told(phases, event)).toBeNull()
    expect(told(phases, { kind: 'ended' })).toEqual({
      prefillWorkerId: worker,
      decodeWorkerId: other,
      routerQueueMs: 1.5,
      prefillQueueMs: 2,
      prefillMs: 3,
      kvTransferMs: 4,
      decodeQueueMs: 5,
    })
    expect(told(phases, { kind: 'ended' })).toBeNull()
  })
})
