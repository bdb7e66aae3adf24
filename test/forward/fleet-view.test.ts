import { describe, expect, it } from 'vitest'
import { fleetChecks } from '../../src/cli/operate/fleet-checks.ts'
import { serverSource } from '../../src/cli/operate/fleet-source.ts'
import { topScreen } from '../../src/cli/operate/top-screen.ts'
import { engine, gatewayOf, WHOLE } from './faulty-engines.ts'

describe('top and doctor in front of servers that do not report their KV blocks', () => {
  it('read the fleet, and show the load without the share of used blocks', async () => {
    const server = await engine(() => WHOLE)
    const { url } = await gatewayOf([server])
    const fleet = await serverSource(url).fleet()
    expect(fleet.models[0]?.workers[0]?.ranks[0]?.totalBlocks).toBeNull()
    expect(fleetChecks(fleet).filter(({ level }) => level !== 'ok')).toEqual([])
    const screen = topScreen(url, fleet, null, { columns: 120, rows: 40, hasColor: false })
    expect(screen.find((line) => /aggregated +serving/.test(line))).toMatch(/ – /)
  })
})
