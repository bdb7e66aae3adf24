import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { RoleController } from './role-controller.ts'
import type { RoleView } from './role-controller.ts'
import type { RoleLoad } from './role-load.ts'

const IDLE: RoleLoad = { workers: 3, queuedRequests: 0, predictedTtftMs: 100, utilisation: 0.1 }
const OPTIONS = { ttftGoalMs: 1000, utilisationTarget: 0.8, spare: 0.6, holdMs: 100, restMs: 1000 }
const SLOW = { predictedTtftMs: 1001 }
const FULL = { utilisation: 0.81 }

function view(
  nowMs: number,
  prefill: Partial<RoleLoad> = {},
  decode: Partial<RoleLoad> = {},
): RoleView {
  return {
    nowMs,
    prefill: { ...IDLE, ...prefill },
    decode: { ...IDLE, ...decode },
    changeable: { prefill: [workerIdOf(1)], decode: [workerIdOf(2), workerIdOf(3)] },
  }
}

describe('RoleController', () => {
  it('prefill short for holdMs - the least busy decode worker changes, with a reason', () => {
    const controller = new RoleController(OPTIONS)
    expect(controller.decide(view(0, SLOW))).toBeNull()
    expect(controller.decide(view(99, SLOW))).toBeNull()
    const change = controller.decide(view(100, SLOW))
    expect(change).toMatchObject({ workerId: '2', from: 'decode', to: 'prefill' })
    expect(change?.why).toMatch(/prefill has been short .* predicted TTFT 1001 ms of 1000 ms/)
  })

  it('decode short - a prefill worker changes', () => {
    const controller = new RoleController(OPTIONS)
    controller.decide(view(0, {}, FULL))
    expect(controller.decide(view(100, {}, FULL))).toMatchObject({ from: 'prefill', to: 'decode' })
  })

  it('queues at both roles - decode is short if first tokens are predicted in time, otherwise neither', () => {
    const waiting = { queuedRequests: 6, utilisation: 1 }
    const heldBack = { queuedRequests: 1 }
    const controller = new RoleController(OPTIONS)
    controller.decide(view(0, heldBack, waiting))
    expect(controller.decide(view(100, heldBack, waiting))).toMatchObject({ to: 'decode' })
    const late = { queuedRequests: 1, predictedTtftMs: 1001 }
    const other = new RoleController(OPTIONS)
    other.decide(view(0, late, waiting))
    expect(other.decide(view(100, late, waiting))).toBeNull()
    other.decide(view(200, heldBack))
    expect(other.decide(view(300, heldBack))).toMatchObject({ to: 'prefill' })
  })

  it('pressure at 1, or a moment below - nothing changes', () => {
    const controller = new RoleController(OPTIONS)
    for (let at = 0; at < 1000; at += 50) {
      expect(controller.decide(view(at, { predictedTtftMs: 1000 }))).toBeNull()
    }
    controller.decide(view(1000, SLOW))
    controller.decide(view(1090))
    expect(controller.decide(view(1100, SLOW))).toBeNull()
  })

  it('the other role has no spare worker - nothing changes', () => {
    const controller = new RoleController(OPTIONS)
    // 0.6 of 0.8 is a pressure of 0.75.
    const busy = { utilisation: 0.6 }
    controller.decide(view(0, SLOW, busy))
    expect(controller.decide(view(200, SLOW, busy))).toBeNull()
  })

  it('after a change - no further change for restMs, not even a reversal', () => {
    const controller = new RoleController(OPTIONS)
    controller.decide(view(0, SLOW))
    expect(controller.decide(view(100, SLOW))).not.toBeNull()
    for (let at = 150; at < 1100; at += 50) expect(controller.decide(view(at, {}, FULL))).toBeNull()
    expect(controller.decide(view(1100, {}, FULL))).not.toBeNull()
  })

  it('without settings - a shortage of 15 s, then 60 s without a further change', () => {
    const controller = new RoleController()
    const slow = { predictedTtftMs: 2_001 }
    controller.decide(view(0, slow))
    expect(controller.decide(view(14_999, slow))).toBeNull()
    expect(controller.decide(view(15_000, slow))).not.toBeNull()
    for (const atMs of [20_000, 50_000, 74_999])
      expect(controller.decide(view(atMs, {}, FULL))).toBeNull()
    expect(controller.decide(view(75_000, {}, FULL))).not.toBeNull()
  })

  it('the last worker of a role, or none that may change - nothing changes', () => {
    const controller = new RoleController(OPTIONS)
    controller.decide(view(0, SLOW, { workers: 1 }))
    expect(controller.decide(view(100, SLOW, { workers: 1 }))).toBeNull()
    const none = { ...view(200, SLOW), changeable: { prefill: [], decode: [] } }
    expect(controller.decide(none)).toBeNull()
  })
})
