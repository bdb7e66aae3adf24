/**
 * How often in a row this system has sent again what a peer does not confirm, by the ports of the connection.
 *
 * A machine that vanishes is found out by TCP keep-alive only where it has confirmed all that it was sent. What it has not
 * confirmed is sent again for a quarter of an hour before a socket ends. Linux says how often; elsewhere nothing is known.
 */
import { readFile } from 'node:fs/promises'

const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

/** Of those with at least one. */
export async function readRetransmissions(): Promise<ReadonlyMap<string, number>> {
  const texts = await Promise.all(TABLES.map((path) => readFile(path, 'latin1').catch(() => '')))
  return new Map(texts.flatMap((text) => [...retransmissionsIn(text)]))
}

/** As keys of the map have them. */
export function portsKey(local: number, remote: number): string {
  return `${local} ${remote}`
}

/** `sl  local_address rem_address  st tx_queue:rx_queue tr:tm->when retrnsmt …`, all of it hexadecimal. */
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
