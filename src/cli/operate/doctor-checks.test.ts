import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { aFleet, aModel, aPool, aWorker } from '../../../test/fixtures/fleet-view.ts'
import type { FleetNote, FleetView } from '../../frontend/index.ts'
import { flagOf, OPTION_TABLE } from '../options/option-table.ts'
import type { Finding } from './finding.ts'
import { findingLines } from './finding.ts'
import { fleetChecks } from './fleet-checks.ts'
import { diskSpace, nodeVersion, openFiles } from './local-checks.ts'
import { certificateAge, clock, processFindings } from './server-checks.ts'

const MIB = 1024 * 1024
const GIB = 1024 * MIB

function found(fleet: FleetView, topic: string): Pick<Finding, 'level' | 'text'>[] {
  return fleetChecks(fleet)
    .filter((finding) => finding.topic === topic)
    .map(({ level, text }) => ({ level, text }))
}

const sums = aFleet().sums
const full = aWorker({ ranks: aWorker().ranks.map((rank) => ({ ...rank, full: true })) })

describe('baton doctor, the fleet', () => {
  it('a healthy fleet - no finding', () => {
    expect(fleetChecks(aFleet()).filter(({ level }) => level !== 'ok')).toEqual([])
  })

  it.each<[string, FleetView, string, Finding['level']]>([
    ['no worker', aFleet({ models: [] }), 'workers', 'fault'],
    ['discovery away', aFleet({ discoveryFault: 'gone' }), 'discovery', 'fault'],
    ['a frontend that drains', aFleet({ draining: true }), 'frontend', 'warning'],
    ['the next minor version', aFleet({ version: '0.3.0' }), 'versions', 'warning'],
    ['two minor versions', aFleet({ version: '0.4.0' }), 'versions', 'fault'],
    ['another major version', aFleet({ version: '1.2.0' }), 'versions', 'fault'],
    [
      'another checksum',
      aFleet({
        models: [aModel({ workers: [aWorker({ state: 'refused', reason: 'blockSize' })] })],
      }),
      'checksums',
      'fault',
    ],
    [
      'no connection',
      aFleet({ models: [aModel({ workers: [aWorker({ state: 'unreachable', reason: 'x' })] })] }),
      'connections',
      'fault',
    ],
    [
      'events off',
      aFleet({ models: [aModel({ prefill: aPool({ usesKvEvents: false }) })] }),
      'kv events',
      'warning',
    ],
    [
      'events that do not arrive',
      aFleet({ models: [aModel({ prefill: aPool({ kvEventWorkersSilent: 1 }) })] }),
      'kv events',
      'fault',
    ],
    [
      'disaggregation not taken',
      aFleet({
        models: [aModel({ disaggregation: { state: 'active', requests: 20, disaggregated: 0 } })],
      }),
      'prefill',
      'warning',
    ],
    [
      'KV not moving',
      aFleet({ sums: { ...sums, kvTransfers: 10, kvRecomputed: 1 } }),
      'hand-over',
      'fault',
    ],
    [
      'KV moving',
      aFleet({ sums: { ...sums, kvTransfers: 100, kvRecomputed: 5 } }),
      'hand-over',
      'ok',
    ],
    [
      'KV that engines did not use',
      aFleet({ models: [aModel({ decode: aPool({ kvNotMoved: 3, kvMoved: 3 }) })] }),
      'hand-over',
      'fault',
    ],
    [
      'all full and some wait',
      aFleet({ models: [aModel({ workers: [full], decode: aPool({ queuedRequests: 3 }) })] }),
      'overload',
      'fault',
    ],
    [
      'one full',
      aFleet({ models: [aModel({ workers: [full, aWorker()] })] }),
      'overload',
      'warning',
    ],
  ])('%s - is reported', (_, fleet, topic, level) => {
    expect(found(fleet, topic)).toEqual([expect.objectContaining({ level })])
  })

  it.each([
    [3_000, '3 s ahead of'],
    [-7_200_000, '7200 s behind'],
    [2_000, null],
    [undefined, null],
  ])('a worker whose clock is off by %s ms - is a warning above 2 s', (clockOffsetMs, text) => {
    const worker = aWorker(clockOffsetMs === undefined ? {} : { clockOffsetMs })
    const fleet = aFleet({ models: [aModel({ workers: [worker] })] })
    expect(found(fleet, 'clock')).toEqual(
      text === null ? [] : [{ level: 'warning', text: expect.stringContaining(text) }],
    )
  })

  it('no request seen, as by a doctor that reads only the workers - no count of requests', () => {
    const disaggregation = { state: 'active', requests: 0, disaggregated: 0 } as const
    const fleet = aFleet({ models: [aModel({ disaggregation })] })
    expect(found(fleet, 'prefill')).toEqual([
      { level: 'ok', text: expect.stringMatching(/requests can be disaggregated$/) },
    ])
  })

  it.each([
    ['silent-worker', 'discovery', 'its way to discovery'],
    ['unanswered-address', 'discovery', 'name the cause'],
    ['certificate-age', 'certificate', 'renew it in the same files'],
    ['keys', 'keys', 'docs/keys.md'],
    ['upstream-away', 'upstreams', 'keeps trying'],
    ['forwarded-unchanged', 'upstreams', 'docs/forwarding.md'],
    ['kv-events-unused', 'upstreams', 'docs/engines-people-run.md'],
    ['worker-away', 'workers', 'keeps starting it'],
    ['frontend-away', 'frontend', 'keeps starting it'],
    ['kind-of-another-version', 'fleet', 'logs'],
  ])('a note of the kind %s - its own advice, whatever its text', (kind, topic, advice) => {
    const notes = [{ kind: kind as FleetNote['kind'], text: 'worker requests upstream' }]
    expect(fleetChecks(aFleet({ notes }))).toContainEqual({
      level: 'warning',
      topic,
      text: 'worker requests upstream',
      advice: expect.stringContaining(advice),
    })
  })

  it.each([
    ['transport.unauthenticated', '--wire-secret'],
    ['transport.tls_failed', '--tls-ca'],
    ['transport.cannot_connect', '--worker-advertise'],
    ['transport.connection_timeout', 'firewall'],
    ['transport.version_mismatch', 'older side'],
    ['transport.protocol', 'log'],
    [undefined, 'log'],
  ] as const)('a worker without a connection, %s - the finding says what to do', (code, advice) => {
    const worker = aWorker({ state: 'unreachable', reason: 'x', ...(code && { code }) })
    const fleet = aFleet({ models: [aModel({ workers: [worker] })] })
    expect(fleetChecks(fleet)).toContainEqual(
      expect.objectContaining({
        level: 'fault',
        topic: 'connections',
        advice: expect.stringContaining(advice),
      }),
    )
  })
})

describe('advice', () => {
  it('every option that it names - exists', () => {
    const folder = new URL('.', import.meta.url)
    const texts = readdirSync(folder)
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
      .map((name) => readFileSync(new URL(name, folder), 'utf8'))
    const named = new Set(texts.join('').match(/(?<![\w-])--[a-z][a-z-]+/g))
    const known = new Set(OPTION_TABLE.map(flagOf))
    expect(known.has('--worker-advertise') && named.has('--worker-advertise')).toBe(true)
    // Options of `baton keys add`, `top` and `doctor` are not in the table.
    const others = new Set(['--operator', '--once', '--json', '--url', '--interval'])
    expect([...named].filter((name) => !known.has(name) && !others.has(name))).toEqual([])
  })
})

describe('baton doctor, machine and server', () => {
  it.each([
    ['20.18.9', 'fault'],
    ['20.19.0', 'ok'],
    ['24.1.0', 'ok'],
  ])('Node %s - %s', (version, level) => expect(nodeVersion(version).level).toBe(level))

  it.each([
    ['Max open files            4095                 4096                 files', 'warning'],
    ['Max open files            4096                 4096                 files', 'ok'],
    ['Max open files            unlimited            unlimited            files', 'ok'],
    [null, 'ok'],
  ])('%s - %s', (limits, level) => expect(openFiles(limits).level).toBe(level))

  it.each([
    [256 * MIB, GIB, 'ok'],
    [256 * MIB - 1, GIB, 'warning'],
    [50 * GIB, 1000 * GIB, 'ok'],
    [49 * GIB, 1000 * GIB, 'warning'],
  ])('%i of %i bytes free - %s', (free, all, level) => {
    expect(diskSpace('/x', free, all).level).toBe(level)
  })

  const at = Date.parse('Sun, 22 Nov 2026 15:00:00 GMT')
  it.each([
    [0, 'ok'],
    [2999, 'ok'],
    [-1999, 'ok'],
    [3000, 'warning'],
    [-2000, 'warning'],
  ])('a clock %i ms apart - %s', (apart, level) => {
    expect(clock('Sun, 22 Nov 2026 15:00:00 GMT', at + apart, 0).level).toBe(level)
  })

  it.each([
    [365, -1, 'fault'],
    [365, 13, 'warning'],
    [365, 14, 'ok'],
    [8, 2, 'ok'],
    [8, 1, 'warning'],
  ])('a certificate of %i days, valid for %i more - %s', (ofDays, days, level) => {
    const date = (inDays: number): string => new Date(at + inDays * 86_400_000).toUTCString()
    const term = { validFrom: date(days - ofDays), validTo: date(days) }
    expect(certificateAge(term, at).level).toBe(level)
  })

  it.each([
    [80, 'ok'],
    [81, 'fault'],
  ])('%i of 100 files open - %s', (open, level) => {
    const text = `baton_frontend_process_open_fds ${open}\nbaton_frontend_process_max_fds{pid="1"} 100\n`
    expect(processFindings(text)).toEqual([
      expect.objectContaining({ topic: 'server files', level }),
    ])
  })

  it('findings - one line each, the advice below, then a summary', () => {
    const lines = findingLines([
      { level: 'ok', topic: 'a', text: 'fine' },
      { level: 'fault', topic: 'bb', text: 'broken', advice: 'mend it' },
    ])
    expect(lines).toEqual([
      'ok    a   fine',
      'FAIL  bb  broken',
      '          → mend it',
      '',
      '1 fault, 0 warnings',
    ])
  })
})
