import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import { RoleClaims } from './role-claims.ts'
import type { RoleChange } from './role-controller.ts'

const MODEL = 'm@1'
const changeOf = (worker: number): RoleChange => ({
  workerId: workerIdOf(worker),
  from: 'decode',
  to: 'prefill',
  why: 'prefill is short',
})

/** Frontends that hear each other; each is about to change another worker. */
function decided(names: readonly string[]) {
  const all = names.map((name, i) => ({ name, claims: new RoleClaims(name), change: changeOf(i) }))
  for (const { claims, change } of all) claims.claim(MODEL, change)
  return all
}

describe('RoleClaims', () => {
  it.each([[['a', 'b']], [['b', 'a']], [['c', 'a', 'b']]])(
    '%j decide within the latency of one message - only the first of the alphabet changes a worker',
    (names) => {
      const all = decided(names)
      for (const hearer of all) {
        for (const teller of all) if (teller !== hearer) hearer.claims.heard(MODEL, teller.name)
      }
      const taken = all.filter(({ claims }) => claims.take(MODEL) !== null)
      expect(taken.map(({ name }) => name)).toEqual(['a'])
    },
  )

  it('the other frontend has made its change - ours is dropped, whatever its name', () => {
    const [a] = decided(['a'])
    expect(a?.claims.heard(MODEL, null)).toEqual({ kind: 'yield', change: changeOf(0) })
    expect(a?.claims.take(MODEL)).toBeNull()
  })

  it('no claim of ours - rest; other models are independent; a claim is taken once', () => {
    const [b] = decided(['b'])
    expect(b?.claims.heard('n@1', 'a')).toEqual({ kind: 'rest' })
    expect(b?.claims.heard(MODEL, 'c')).toEqual({ kind: 'keep' })
    expect(b?.claims.take(MODEL)).toEqual(changeOf(0))
    expect(b?.claims.take(MODEL)).toBeNull()
  })
})
