import { describe, expect, it } from 'vitest'

import { randomInt } from '../../base/index.ts'
import { Fleet, ask, build, isIdle } from '../../../test/wire/boostr-fleet.ts'
import { singleNode } from '../../../test/wire/boostr-toy.ts'

const SEED = Date.now() % 1e9
const ROUTER = 0
const PREFILL = [100, 101]
const DECODE = [200, 201]

/** What can break: a process that starts again, or the connection of two that continue. */
const BREAKS = {
  router: [ROUTER],
  prefill: [100],
  decode: [200],
  'router to prefill': [ROUTER, 100],
  'router to decode': [ROUTER, 200],
  'prefill to decode': [100, 200],
} as const

/** Asks before and after a break at the message `at`; the prompts differ, so another's answer is a wrong one. */
function breakAt(seed: number, peers: 'baton' | 'boostr', ranks: readonly number[], at: number) {
  const fleet = new Fleet(seed)
  const { random } = fleet
  const nodes = build(fleet, { routers: 1, prefill: 2, decode: 2, peers })
  const [rank = 0, other] = ranks
  let router = nodes.routers[0]!
  const restart = (): void => {
    if (rank === ROUTER) {
      fleet.restart(rank, [...PREFILL, ...DECODE], () => {
        // As `hostBoostrRouter` numbers.
        const first = peers === 'baton' ? BigInt(1 + randomInt(random, 2 ** 48)) : 1n
        return (nodes.routers[0] = router = nodes.createRouter(rank, first))
      })
    } else if (rank < 200) {
      fleet.restart(rank, [ROUTER, ...DECODE], () => {
        return (nodes.prefill[0] = nodes.createPrefill(rank))
      })
    } else {
      fleet.restart(rank, [ROUTER, ...PREFILL], () => {
        return (nodes.decode[0] = nodes.createDecode(rank))
      })
    }
  }
  let messageCount = 0
  fleet.onSend = () => {
    messageCount += 1
    if (messageCount === at)
      fleet.clock.after(0, other === undefined ? restart : () => fleet.cut(rank, other))
    return true
  }
  // One length: a prompt that is paired with another's descriptor is not noticed by its length.
  const askSome = () =>
    Array.from({ length: 4 }, () => {
      const prompt = Array.from({ length: 5 }, () => BigInt(randomInt(random, 1_000)))
      return { prompt, router, ...ask(router, prompt) }
    })
  const asked = askSome()
  for (let i = 1; i <= 8; i++) fleet.clock.after(i * 8, () => void asked.push(...askSome()))
  fleet.run()
  const [last] = askSome()
  fleet.run()
  // A router that has ended answers nobody.
  return { asked: asked.filter((one) => one.router === router), last: last!, nodes }
}

describe.each(Object.entries(BREAKS))('%s - breaks at any message', (_, ranks) => {
  it.each(['baton', 'boostr'] as const)(
    `%s peers - every client gets its own answer or an error, seed ${SEED}`,
    (peers) => {
      for (let at = 1; at < 120; at += 3) {
        const { asked, last, nodes } = breakAt(SEED + at, peers, ranks, at)
        for (const { prompt, reply } of [...asked, last]) {
          expect(reply.ends.length, `at ${at}`).toBe(1)
          if (reply.ends[0] !== 'done') continue
          expect(reply.tokens, `at ${at}`).toEqual(singleNode(prompt, 12))
        }
        expect(last.reply.ends, `at ${at}`).toEqual(['done'])
        expect(isIdle(nodes), `at ${at}`).toBe(true)
      }
    },
  )
})
