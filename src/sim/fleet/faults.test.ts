/**
 * 100,000 requests under seeded faults: none is lost, none ends twice, every token is right, nothing is left behind.
 *
 * A violation names its seed; `runFleet(faultyFleet(kind, seed, REQUESTS))` reproduces it.
 */
import { describe, expect, it } from 'vitest'
import { faultyFleet, SMALL_ENGINE as engine } from '../../../test/fixtures/faulty-fleet.ts'
import { settle } from '../../os/index.ts'
import { ReplyWitness } from '../faults/reply-witness.ts'
import { Fleet } from './fleet.ts'
import { leftBehind } from './left-behind.ts'
import { runFleet } from './run-fleet.ts'

const REQUESTS = 10_000
describe('a fleet under faults', () => {
  it.each([
    ['aggregated', 1],
    ['disaggregated', 2],
    ['mixed', 3],
    ['aggregated', 4],
    ['disaggregated', 5],
    ['aggregated', 6],
    ['mixed', 7],
    ['aggregated', 8],
    ['disaggregated', 9],
    ['aggregated', 10],
  ] as const)(
    '%s, seed %i - 10,000 requests end once with the right tokens, and nothing is left behind',
    async (kind, seed) => {
      const report = await runFleet(faultyFleet(kind, seed, REQUESTS))
      expect(report.violations).toEqual([])
      const failed = Object.values(report.failed).reduce((sum, count) => sum + count, 0)
      expect(report.completed + failed).toBe(REQUESTS)
      expect(report.completed).toBeGreaterThan(0.9 * REQUESTS)
      expect(report.migrations).toBeGreaterThan(0)
    },
  )

  it('the same seed - the same run, whatever faults occur', async () => {
    const config = faultyFleet('mixed', 11, REQUESTS)
    const short = { ...config, trace: config.trace.slice(0, 1500) }
    expect(await runFleet(short)).toEqual(await runFleet(short))
  })
})

describe('the checks of a fleet', () => {
  const request = {
    requestId: 'r',
    model: 'sim',
    tokenIds: Uint32Array.of(1, 2, 3),
    sampling: {},
    stop: { maxTokens: 2 },
    output: {},
    eosTokenIds: [],
    routing: {},
  }

  it('report a wrong token, a token too many, a second end and a missing one', () => {
    const witness = new ReplyWitness(2, 0)
    witness.sent(0, request)
    witness.sent(1, request)
    witness.token(0, 0, 7)
    witness.ended(0, 'length', 1)
    witness.failed(0, 'transport.disconnected')
    witness.checkAll()
    const { violations } = witness
    expect(violations[0]).toContain('request 0: token 0 is 7, expected')
    expect(violations.slice(1)).toEqual([
      'request 0: ended (length) after 1 of 2 tokens',
      'request 0: ended twice',
      'request 1: never ended',
    ])
  })

  it('report what is still running in the middle of a run', async () => {
    const fleet = new Fleet({ workers: [{ mode: 'agg', count: 1, engine }], trace: [], settle })
    await fleet.begin()
    const sink = { onToken: () => undefined, onChunk: () => undefined, onError: () => undefined }
    fleet.frontendOf(0).service.send(request, sink)
    await fleet.clock.settle()
    expect(leftBehind(fleet).join('\n')).toMatch(/replies under way: 1[^]*worker 1, requests: 1/)
    await fleet.quiesce()
    expect(leftBehind(fleet)).toEqual([])
  })
})
