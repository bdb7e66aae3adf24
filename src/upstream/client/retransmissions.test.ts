import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/until.ts'
import { osClock } from '../../os/index.ts'
import { UpstreamClient } from './upstream-client.ts'
import { parseUpstreamUrl } from './upstream-url.ts'
import { retransmissionsIn } from './retransmissions.ts'

const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:8EA0 0100007F:AA89 01 00000004:00000000 01:00000256 00000006     0        0 1 1 0 20 4 30 10 -1
   1: 0100007F:1F90 0100007F:AA8A 01 00000000:00000000 02:00000100 00000000     0        0 1 1 0 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:C001 01 00000004:00000000 01:1 0000000A 0 0 1
`
const SCRIPT = fileURLToPath(new URL('../../../test/upstream/vanished-machine.ts', import.meta.url))
const SINK = {
  onHead: () => undefined,
  onBody: () => undefined,
  onEnd: () => undefined,
  onError: () => undefined,
}
/** In a network namespace of its own, where removing the machine affects nobody. */
const inOwnNetwork = (args: readonly string[]) =>
  spawnSync('unshare', ['-rn', ...args], { encoding: 'utf8', timeout: 60_000 })
const CAN_UNSHARE = inOwnNetwork(['ip', 'link', 'set', 'lo', 'up']).status === 0

describe('retransmissions', () => {
  it('the table of Linux - the ports of connections with retransmissions', () => {
    expect([...retransmissionsIn(TABLE)]).toEqual([
      ['36512 43657', 6],
      ['80 49153', 10],
    ])
    expect([...retransmissionsIn('')]).toEqual([])
  })

  it.skipIf(process.platform !== 'linux')(
    'a connection that waits for an answer - is probed by the system after 10 s of silence',
    async () => {
      const heard = new Set<Socket>()
      const server = createServer((socket) => void heard.add(socket)).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const client = new UpstreamClient({
        url: parseUpstreamUrl(`http://127.0.0.1:${port}`),
        clock: osClock,
      })
      onTestFinished(() => {
        client.close()
        for (const socket of heard) socket.destroy()
        server.close()
      })
      client.send({ method: 'GET', path: '/' }, SINK)
      await until('the connection is there', () => heard.size > 0)
      const [accepted] = heard
      const hex = (of: number | undefined): string =>
        `:${of?.toString(16).toUpperCase().padStart(4, '0')}`
      // Of this connection: an older one of another test may have gone to the same port.
      const ends = [hex(accepted?.remotePort), hex(port)] as const
      // Hundredths of a second until the timer of the keep-alive, which has number 2.
      const dueIn = (): number | undefined =>
        readFileSync('/proc/net/tcp', 'latin1')
          .split('\n')
          .map((line) => line.trim().split(/\s+/))
          .filter(([, near, far]) => near?.endsWith(ends[0]) === true && far?.endsWith(ends[1]))
          .map((fields) => /^02:([0-9A-F]+)$/.exec(fields[5] ?? '')?.[1])
          .flatMap((due) => (due === undefined ? [] : [Number.parseInt(due, 16)]))[0]
      let due: number | undefined
      await until('the timer runs', () => (due = dueIn()) !== undefined)
      expect(due).toBeLessThanOrEqual(1_000)
    },
  )

  it.skipIf(!CAN_UNSHARE)(
    'a machine that vanishes before it acknowledges a request - ends it, and a long computation does not',
    () => {
      const { stdout, stderr } = inOwnNetwork(['npx', 'tsx', SCRIPT])
      expect([stdout.trim().split('\n'), stderr]).toEqual([
        ['computes: answered', 'vanished: transport.connection_timeout'],
        '',
      ])
    },
  )
})
