/**
 * A worker's card over a persistent connection.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import type { BatonError } from '../../base/index.ts'
import { sampleCard } from '../../testing/discovery-kit.ts'
import { countingHandler } from '../../testing/request-plane-kit.ts'
import { FaultyProxy } from '../../../test/faulty-proxy.ts'
import { until } from '../../../test/until.ts'
import type { WorkerCard } from '../../request/index.ts'
import { TcpWorkerServer } from './tcp-worker-server.ts'
import { WorkerCardLink } from './worker-card-link.ts'

async function scene(card: WorkerCard | null, secret?: string) {
  const state = { card, asked: 0 }
  const server = await TcpWorkerServer.listen({
    ...(secret === undefined ? {} : { secret }),
    handler: {
      ...countingHandler,
      memberCard: () => {
        state.asked += 1
        return state.card
      },
    },
  })
  onTestFinished(() => server.close())
  return { state, server }
}

function follow(port: number, more: { readonly secret?: string } = {}) {
  const told: (string | null)[] = []
  const lost: BatonError[] = []
  const link = new WorkerCardLink(
    { host: '127.0.0.1', port, software: 'test', timeoutMs: 2_000, ...more },
    {
      onCard: (card) => told.push((card as WorkerCard | null)?.workerId ?? null),
      onLost: (reason) => lost.push(reason),
    },
  )
  onTestFinished(() => link.close())
  return { link, told, lost }
}

describe('WorkerCardLink', () => {
  it('the card is sent once, and again when the worker leaves, comes back or ends; no second question is needed', async () => {
    const { state, server } = await scene(sampleCard(1))
    const { told, lost } = follow(server.port)
    await until('the first', () => told.length === 1)
    state.card = null
    server.membershipChanged()
    await until('it leaves', () => told.length === 2)
    state.card = sampleCard(1)
    server.membershipChanged()
    await until('it is back', () => told.length === 3)
    expect([told, state.asked]).toEqual([['1', null, '1'], 3])
    await server.close()
    await until('lost', () => lost.length === 1)
    expect(server.connectionCount).toBe(0)
  })

  it('no server, or one with another secret - is reported once', async () => {
    const { server } = await scene(sampleCard(1), 'a secret of sixteen bytes')
    const stranger = follow(server.port, { secret: 'another one of sixteen bytes' })
    await until('refused', () => stranger.lost.length === 1)
    expect(stranger.lost[0]?.code).toBe('transport.unauthenticated')
    expect(stranger.lost[0]?.message).toContain('secret')
    await server.close()
    const nobody = follow(server.port)
    await until('refused by the machine', () => nobody.lost.length === 1)
    expect([stranger.told, nobody.told]).toEqual([[], []])
  })

  it('closed, before or after it is connected - reports nothing more and leaves no connection', async () => {
    const { state, server } = await scene(sampleCard(1))
    const early = follow(server.port)
    early.link.close()
    const late = follow(server.port)
    await until('told', () => late.told.length === 1)
    late.link.close()
    await until('no connection', () => server.connectionCount === 0)
    state.card = null
    server.membershipChanged()
    expect([early.told, early.lost, late.told, late.lost]).toEqual([[], [], ['1'], []])
  })

  it('a worker that accepts the connection and is silent - counts as lost after the time for an answer', async () => {
    const { server } = await scene(sampleCard(1))
    const proxy = await FaultyProxy.start(server.port)
    onTestFinished(() => proxy.close())
    proxy.hold()
    const { lost } = follow(proxy.port)
    await until('given up', () => lost.length === 1)
    expect(lost[0]?.code).toBe('transport.connection_timeout')
  })
})
