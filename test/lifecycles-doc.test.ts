import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { DEFAULT_LIMITS, DEFAULT_SHUTDOWN } from '../src/worker/index.ts'
import type { ShutdownStage, StageReason, WorkerState } from '../src/worker/index.ts'
import type { KvReleaseReason } from '../src/wire/index.ts'
import type { LeaveReason } from '../src/discovery/discovery.ts'
import { leaseOf } from '../src/discovery/lease.ts'
import { CLEANUP_FLOOR_MS } from '../src/worker/shutdown-budget.ts'
import type { AdminState } from '../src/worker/admin-drain.ts'

const doc = readFileSync(new URL('../docs/lifecycles.md', import.meta.url), 'utf8')

// A record over a union type: a new member does not compile until it is added here, and then fails until it is
// documented.
const states: Record<WorkerState, true> = {
  init: true,
  starting: true,
  running: true,
  draining: true,
  stopped: true,
  'start-failed': true,
}
const stages: Record<ShutdownStage, true> = {
  unregister: true,
  router_grace: true,
  stop_admission: true,
  inflight: true,
  kv_transfer: true,
  cleanup: true,
}
const reasons: Record<StageReason, true> = {
  completed: true,
  timed_out: true,
  skipped: true,
  cancelled: true,
  unsupported: true,
}
const releases: Record<KvReleaseReason, true> = {
  acknowledged: true,
  abandoned: true,
  withdrawn: true,
  'puller-died': true,
  'lease-ended': true,
  closed: true,
}

const adminStates: Record<AdminState, true> = {
  serving: true,
  draining: true,
  drained: true,
  stopping: true,
}
const leaveReasons: Record<LeaveReason, true> = {
  closed: true,
  expired: true,
  'process-died': true,
  replaced: true,
}

describe('docs/lifecycles.md - matches the code', () => {
  it.each([
    ['states', states],
    ['stages', stages],
    ['results of a stage', reasons],
    ['releases of an offer', releases],
  ])('%s - each value has a row', (_, members) => {
    for (const name of Object.keys(members)) expect(doc).toContain(`\n| \`${name}\` |`)
  })

  it('drain states and reasons to leave discovery - each is documented', () => {
    for (const name of Object.keys(adminStates)) expect(doc).toMatch(new RegExp(`\\b${name}\\b`))
    for (const name of Object.keys(leaveReasons)) expect(doc).toContain(`\`left\` with \`${name}\``)
  })

  it('numbers - equal the values in the code', () => {
    const { inflightMs, ...shutdown } = DEFAULT_SHUTDOWN
    const { kvFailure, ...limits } = DEFAULT_LIMITS
    const numbers = { ...shutdown, ...limits, ...leaseOf(), CLEANUP_FLOOR_MS }
    for (const [name, value] of Object.entries(numbers))
      expect(doc).toMatch(new RegExp(`\`${name}\` ${value}\\b`))
    expect(inflightMs).toBe(Infinity)
    expect(doc).toMatch(/\| `inflight` \|.*\| the remaining time \|/)
    expect(doc).toContain(`(policy \`${kvFailure}\`, the default)`)
  })
})
