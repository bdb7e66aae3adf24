import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { discoveryLog } from './discovery-log.ts'

describe('discoveryLog', () => {
  it('an outage of discovery - is logged once per reason, also when two alternate; its end is logged at the same level', () => {
    const lines: Record<string, unknown>[] = []
    const told: (string | null)[] = []
    const logger = pino(
      { level: 'warn' },
      { write: (line: string) => lines.push(JSON.parse(line)) },
    )
    const log = discoveryLog(logger, {
      away: (why) => told.push(why),
      back: () => told.push(null),
    })
    for (const why of ['refused', 'silent', 'refused', 'silent']) log.discoveryAway(why)
    log.discoveryBack()
    log.discoveryAway('refused')
    expect(lines.map(({ why }) => why)).toEqual(['refused', 'silent', undefined, 'refused'])
    expect(new Set(lines.map(({ level }) => level)).size).toBe(1)
    expect(told).toEqual(['refused', 'silent', 'refused', 'silent', null, 'refused'])
  })
})
