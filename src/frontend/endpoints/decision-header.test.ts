import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../../test/frontend/scripted-frontend.ts'
import { workerIdOf } from '../../base/index.ts'
import type { DecisionRecord } from '../../router/index.ts'

const ID = '11111111-2222-4333-8444-555555555555'
const candidate = {
  workerId: workerIdOf(7),
  dpRank: 1,
  cost: 70.12345,
  terms: { device: 0, prefill: 4.38281 },
}
const ROUTED: DecisionRecord = {
  requestId: ID,
  phase: 'prefill',
  atMs: 0,
  atEpochMs: 0,
  mode: 'kv',
  promptTokens: 256,
  promptBlocks: 16,
  queuedMs: 3.4,
  ranksSeen: 4,
  ranksEligible: 3,
  terms: [
    { name: 'device', unit: 'blocks', role: 'credit', weight: 1 },
    { name: 'prefill', unit: 'blocks', role: 'add', weight: 16 },
  ],
  candidates: [{ ...candidate, workerId: workerIdOf(9) }, candidate],
  excluded: [],
  outcome: {
    kind: 'routed',
    workerId: workerIdOf(7),
    dpRank: 1,
    overlapBlocks: 12,
    cachedTokens: 192,
    reason: 'lowest cost',
  },
}
const REFUSED: DecisionRecord = {
  ...ROUTED,
  phase: 'decode',
  outcome: { kind: 'refused', code: 'capacity.pool_exhausted', message: 'all are busy' },
}

async function headerOf(
  records: Readonly<Record<string, readonly DecisionRecord[]>>,
  asked: Readonly<Record<string, string>>,
  body: Record<string, unknown> = {},
): Promise<string | undefined> {
  const it_ = new ScriptedFrontend()
  for (const [id, decisions] of Object.entries(records)) it_.decisions.set(id, decisions)
  const reply = await it_.chat(body, { 'x-request-id': ID, ...asked })
  return reply.headers['x-baton-decision']
}

describe('x-baton-decision', () => {
  it('requested - the header says where each leg was sent and why', async () => {
    expect(await headerOf({ [ID]: [ROUTED, REFUSED] }, { 'x-baton-decision': '1' })).toBe(
      'prefill; worker="7"; rank=1; reason="lowest cost"; overlap=12; blocks=16; cost=70.123; terms="device=0 prefill=4.383"; candidates=3; queued-ms=3, ' +
        'decode; refused="capacity.pool_exhausted"; queued-ms=3',
    )
  })

  it('a stream - has the header in its head too', async () => {
    const asked = { 'x-baton-decision': 'true' }
    expect(await headerOf({ [ID]: [ROUTED] }, asked, { stream: true })).toMatch(/^prefill; worker/)
  })

  it('several choices - the decisions of all', async () => {
    const records = { [`${ID}-0`]: [ROUTED], [`${ID}-1`]: [REFUSED] }
    expect(await headerOf(records, { 'x-baton-decision': '1' }, { n: 2 })).toMatch(
      /^prefill.*decode/,
    )
  })

  it('many decisions - only the last ones', async () => {
    const records = { [ID]: Array<DecisionRecord>(20).fill(ROUTED) }
    const header = await headerOf(records, { 'x-baton-decision': '1' })
    expect(header?.split(', ')).toHaveLength(8)
  })

  it.each(['0', 'false', 'no', ' '])('not requested, or %j - no header', async (value) => {
    expect(await headerOf({ [ID]: [ROUTED] }, { 'x-baton-decision': value })).toBeUndefined()
    expect(await headerOf({ [ID]: [ROUTED] }, {})).toBeUndefined()
    expect(await headerOf({}, { 'x-baton-decision': '1' })).toBeUndefined()
  })
})
