/** A worker that completes one request per tenth of a second, and senders that may send more than that. */
import type { RouterOptions } from '../../src/router/index.ts'
import type { RoutingHints } from '../../src/request/index.ts'
import { tokensFrom } from './model-fixture.ts'
import { fleet } from './small-fleet.ts'

export interface Sender extends RoutingHints {
  /** Requests per tenth of a second. */
  readonly perTick: number
  readonly promptTokens?: number
}

interface Flooding {
  readonly config?: RouterOptions
  readonly ticks?: number
}

/** By sender: number of requests sent, started and refused. */
export function flooded(senders: readonly Sender[], { config, ticks = 300 }: Flooding = {}) {
  const model = fleet(1, config)
  const sent = senders.map(() => [] as ReturnType<typeof model.send>[])
  let [next, started] = [0, 0]
  for (let tick = 0; tick < ticks; tick++) {
    senders.forEach(({ perTick, promptTokens = 16, ...routing }, i) => {
      const due = Math.floor((tick + 1) * perTick) - Math.floor(tick * perTick)
      for (let n = 0; n < due; n++) {
        sent[i]?.push(model.send(routing, tokensFrom(1000 * started++, promptTokens)))
      }
    })
    if (next < model.plane.calls.length) model.plane.call(next++).finish()
    model.clock.advance(100)
  }
  const served = new Set(model.plane.calls.map(({ request }) => request.requestId))
  return sent.map((requests) => ({
    sent: requests.length,
    served: requests.filter((one) => served.has(one.sent.requestId)).length,
    refused: requests.filter(({ sink }) => sink.errors.length > 0).length,
  }))
}
