import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { retransmissionsIn } from './retransmissions.ts'

const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:8EA0 0100007F:AA89 01 00000004:00000000 01:00000256 00000006     0        0 1 1 0 20 4 30 10 -1
   1: 0100007F:1F90 0100007F:AA8A 01 00000000:00000000 02:00000100 00000000     0        0 1 1 0 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:C001 01 00000004:00000000 01:1 0000000A 0 0 1
`
const SCRIPT = fileURLToPath(new URL('../../../test/upstream/vanished-machine.ts', import.meta.url))
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
