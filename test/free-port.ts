/**
 * Finds a free port for a server that cannot choose one itself.
 *
 * Operating systems assign ports for connections and for `listen(0)` from 32768 (Linux) or 49152 upwards, so
 * another process may take such a port before the server does; this happened occasionally. Lower ports are only
 * used by processes that name them. Each test process starts its search at another port.
 */
import { createServer } from 'node:net'

const FIRST = 10_000
const COUNT = 10_000
/** Distance between the first ports of processes that start one after the other. */
const APART = 97

let next = (process.pid * APART) % COUNT

export async function freePort(): Promise<number> {
  for (let tried = 0; tried < COUNT; tried++) {
    const port = FIRST + next
    next = (next + 1) % COUNT
    if (await isFree(port)) return port
  }
  throw new Error(`no free port from ${FIRST} to ${FIRST + COUNT - 1}`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    // Tries all addresses: a server on any of them would conflict.
    server.listen(port, () => server.close(() => resolve(true)))
  })
}
