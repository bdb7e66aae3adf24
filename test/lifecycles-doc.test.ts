import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { DEFAULT_LIMITS, DEFAULT_SHUTDOWN } from '../src/worker/index.ts'
import type { ShutdownStage, StageReason, WorkerState } from '../src/worker/index.ts'
import type { KvReleaseReason } from '../src/wire/index.ts'

const doc = readFileSync(new URL('../docs/lifecycles.md', import.meta.url), 'utf8')

// A record of a union: a new member does not compile until it stands here, and then fails until it is documented.
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

describe('docs/lifecycles.md - says what the code does', () => {
  it.each([
    ['states', states],
    ['stages', stages],
    ['results of a stage', reasons],
    ['releases of an offer', releases],
  ])('%s - each has a row', (_, members) => {
    for (const name of Object.keys(members)) expect(doc).toContain(`\n| \`${name}\` |`)
  })

  it('numbers - are those in force', () => {
    const { totalMs, routerGraceMs, kvTransferMs, cleanupMs, forceExitAfterMs } = DEFAULT_SHUTDOWN
    const { stallTimeoutMs, kvLeaseMs, kvPullTimeoutMs, cancelTimeoutMs } = DEFAULT_LIMITS
    const numbers = {
      totalMs,
      routerGraceMs,
      kvTransferMs,
      cleanupMs,
      forceExitAfterMs,
      stallTimeoutMs,
      kvLeaseMs,
      kvPullTimeoutMs,
      cancelTimeoutMs,
    }
    for (const [name, value] of Object.entries(numbers))
      expect(doc).toContain(`\`${name}\` ${value}`)
  })
})
