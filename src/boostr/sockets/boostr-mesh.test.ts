import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'

import { tlsOf } from '../../../test/tls-fixtures.ts'
import { until } from '../../../test/until.ts'
import type { BoostrNode } from '../protocol/boostr-link.ts'
import { BoostrMesh } from './boostr-mesh.ts'

const TLS = tlsOf('fleet')
const IDLE: BoostrNode = {
  receive: () => undefined,
  peerGone: () => undefined,
  close: () => undefined,
}

describe('BoostrMesh', () => {
  it('closed during the TLS handshake with a peer that is silent - leaves no connection', async () => {
    const mesh = await BoostrMesh.listen({
      rank: 0,
      ranks: [1],
      tls: TLS,
      createNode: () => IDLE,
    })
    let hasBegun = false
    let isGone = false
    const silent = createServer((socket) => {
      socket.on('data', () => (hasBegun = true))
      socket.on('error', () => undefined).on('close', () => (isGone = true))
    })
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void silent.close())
    mesh.dial(1, '127.0.0.1', (silent.address() as AddressInfo).port)
    await until('the handshake', () => hasBegun)
    await mesh.close()
    await until('its end', () => isGone)
  })

  it('a connection that never begins TLS - ends with its time, and the mesh can close', async () => {
    const mesh = await BoostrMesh.listen({
      rank: 1,
      ranks: [0],
      tls: TLS,
      createNode: () => IDLE,
    })
    const silent = connect(mesh.port, mesh.host)
    await new Promise<void>((resolve) => silent.once('connect', resolve))
    await mesh.close()
    silent.destroy()
  })

  it('something for a rank was lost, and it connects - the loss is told first', async () => {
    const told: string[] = []
    const listening = await BoostrMesh.listen({
      rank: 1,
      ranks: [0],
      createNode: () => ({
        receive: () => undefined,
        peerGone: () => told.push('gone'),
        peerBack: () => told.push('back'),
        close: () => undefined,
      }),
    })
    const dialling = await BoostrMesh.listen({
      rank: 0,
      ranks: [1],
      createNode: () => IDLE,
    })
    onTestFinished(async () => void (await Promise.all([listening.close(), dialling.close()])))
    // Its first bytes wait, so that they arrive in the turn of the event loop after the loss.
    const far = connect(listening.port, listening.host)
    await new Promise<void>((resolve) => far.once('connect', resolve))
    const server = createServer((near) => {
      far.pipe(near)
      near.once('data', (hello) => {
        setImmediate(() => {
          far.write(hello)
          listening.send(0, { tag: 31, payload: new Uint8Array(16) })
        })
        near.pipe(far)
      })
      near.on('error', () => far.destroy())
      far.on('error', () => near.destroy())
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    dialling.dial(1, '127.0.0.1', port)
    await until('both are told', () => told.length >= 2)
    expect(told).toEqual(['gone', 'back'])
  })

  it.each(['dials', 'is dialled'] as const)(
    'a node that %s resets a connection - both are told, and what comes after it arrives',
    async (way) => {
      const start = async (rank: number, ranks: readonly number[], redialMs = 20) => {
        const told: string[] = []
        const mesh = await BoostrMesh.listen({
          rank,
          ranks,
          redialMs,
          createNode: () => ({
            receive: (_, { payload }) => told.push(`frame ${payload[0]}`),
            peerGone: () => told.push('gone'),
            peerBack: () => told.push('back'),
            close: () => undefined,
          }),
        })
        onTestFinished(() => mesh.close())
        return { mesh, told, rank }
      }
      const near = await start(0, [1])
      const far = await start(1, [0])
      near.mesh.dial(1, far.mesh.host, far.mesh.port)
      await Promise.all([near.mesh.reached(1), far.mesh.reached(0)])
      const [one, other] = way === 'dials' ? [near, far] : [far, near]
      one.mesh.reset(other.rank)
      expect(one.told).toEqual(['back'])
      // Lost, because there is no connection now.
      one.mesh.send(other.rank, { tag: 31, payload: new Uint8Array(16).fill(1) })
      await Promise.all([one.mesh.reached(other.rank), until('far', () => other.told.length > 2)])
      one.mesh.send(other.rank, { tag: 31, payload: new Uint8Array(16).fill(2) })
      await until('a frame', () => other.told.length > 3)
      expect(one.told).toEqual(['back', 'gone', 'back'])
      expect(other.told).toEqual(['back', 'gone', 'back', 'frame 2'])
    },
  )
})
