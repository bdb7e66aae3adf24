import { describe, expect, it } from 'vitest'
import { settle } from '../../os/settle.ts'
import type { TraceRequest } from '../trace/trace-request.ts'
import type { FleetConfig, FleetGroup } from './fleet-config.ts'
import { runFleet } from './run-fleet.ts'

const REQUEST: TraceRequest = { atMs: 0, inputTokens: 600, outputTokens: 4, hashIds: [1, 2] }
const GROUP: FleetGroup = { mode: 'agg', count: 1 }

async function refusalOf(change: Partial<FleetConfig>): Promise<string> {
  const config = { workers: [GROUP], trace: [REQUEST], settle, ...change }
  try {
    await runFleet(config)
  } catch (thrown) {
    const { code, message } = thrown as { code: string; message: string }
    return `${code} ${message}`
  }
  return 'accepted'
}

/** The change to the second of two requests. */
const second = (change: Partial<TraceRequest>): Partial<FleetConfig> => ({
  trace: [REQUEST, { ...REQUEST, ...change }],
})
const group = (change: object): Partial<FleetConfig> => ({
  workers: [GROUP, { ...GROUP, ...change }],
})

describe('runFleet - values of a program that cannot be run', () => {
  it.each([
    ['trace[1].atMs: expected a number ≥ 0, got NaN', second({ atMs: NaN })],
    ['trace[1].atMs: expected a number ≥ 0, got Infinity', second({ atMs: Infinity })],
    ['trace[1].atMs: expected a number ≥ 0, got -1', second({ atMs: -1 })],
    ['trace[1].inputTokens: expected a whole number ≥ 1, got 0', second({ inputTokens: 0 })],
    ['trace[1].outputTokens: expected a whole number ≥ 1, got -3', second({ outputTokens: -3 })],
    ['trace[1].blockTokens: expected a whole number ≥ 1, got 0.5', second({ blockTokens: 0.5 })],
    ['trace[1].hashIds: expected one id per block, got none', second({ hashIds: [] })],
    ['trace[1].after: expected the index of an earlier request, got 1', second({ after: 1 })],
    ['trace[1].after: expected the index of an earlier request, got -1', second({ after: -1 })],
    ['trace[1].delayMs: expected a number ≥ 0, got -5', second({ after: 0, delayMs: -5 })],
    [
      'trace[1].waitsFor[0].request: expected the index of an earlier request, got 9',
      second({ waitsFor: [{ request: 9, on: 'ended', delayMs: 0 }] }),
    ],
    [
      'trace[1].waitsFor[0].on: expected one of sent, ended, got done',
      second({ waitsFor: [{ request: 0, on: 'done' as 'ended', delayMs: 0 }] }),
    ],
    ['workers[1].count: expected a whole number ≥ 0, got 1.5', group({ count: 1.5 })],
    ['workers[1].count: expected a whole number ≥ 0, got -1', group({ count: -1 })],
    ['workers[1].mode: expected one of agg, prefill, decode, got both', group({ mode: 'both' })],
    ['concurrency: expected a whole number ≥ 1, got 0', { concurrency: 0 }],
    ['frontends: expected a whole number ≥ 1, got 0', { frontends: 0 }],
    ['migrationLimit: expected a whole number ≥ 0, got -1', { migrationLimit: -1 }],
    ['leaving: expected a share from 0 to 1, got 2', { leaving: 2 }],
    ['contextLength: expected a whole number ≥ 1, got NaN', { contextLength: NaN }],
    ['peerDelayMs: expected a number ≥ 0, got NaN', { peerDelayMs: NaN }],
    ['sampleMs: expected a number ≥ 0, got -1', { sampleMs: -1 }],
    [
      'overhead.requestMs: expected a number ≥ 0, got -5',
      { overhead: { requestMs: -5, msPerToken: 0 } },
    ],
  ] as const)('%s', async (message, change) => {
    expect(await refusalOf(change)).toBe(`config.invalid ${message}`)
  })

  it('values that can be run - are accepted', async () => {
    expect(await refusalOf({})).toBe('accepted')
    expect(await refusalOf({ trace: [] })).toBe('accepted')
    expect(await refusalOf(group({ count: 0 }))).toBe('accepted')
    expect(await refusalOf(second({ after: 0, delayMs: 5 }))).toBe('accepted')
    expect(await refusalOf({ peerDelayMs: null, sampleMs: 0, contextLength: 4096 })).toBe(
      'accepted',
    )
    const waitsFor = [{ request: 0, on: 'sent', delayMs: 0 }] as const
    expect(await refusalOf(second({ waitsFor }))).toBe('accepted')
  })
})
