/**
 * The number of consecutive retransmissions of data that a peer does not acknowledge, by the ports of the
 * connection.
 *
 * TCP keep-alive detects a machine that vanished only if it has acknowledged everything. Unacknowledged data is sent
 * again for a quarter of an hour before the socket ends. Linux reports the number in /proc/net/tcp; elsewhere it is
 * unknown.
 */
import { readFile } from 'node:fs/promises'

const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

/** Of connections with at least one. */
export async function readRetransmissions(): Promise<ReadonlyMap<string, number>> {
  const texts = await Promise.all(TABLES.map((path) => readFile(path, 'latin1').catch(() => '')))
  return new Map(texts.flatMap((text) => [...retransmissionsIn(text)]))
}

/** The key format of the map. */
export function portsKey(local: number, remote: number): string {
  return `${local} ${remote}`
}

/** Line format: `sl  local_address rem_address  st tx_queue:rx_queue tr:tm->when retrnsmt …`, all hexadecimal. */
export function* retransmissionsIn(table: string): Generator<readonly [string, number]> {
  for (const line of table.split('\n').slice(1)) {
    const [, local = '', remote = '', , , , count = '0'] = line.trim().split(/\s+/)
    if (/^0*$/.test(count)) continue
    yield [portsKey(portOf(local), portOf(remote)), Number.parseInt(count, 16)]
  }
}

function portOf(address: string): number {
  return Number.parseInt(address.slice(address.lastIndexOf(':') + 1), 16)
}
