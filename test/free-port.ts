/**
 * A port on which nobody listens, for a server that cannot be told to choose one.
 *
 * Systems draw ports for connections and for `listen(0)` from 32768 (Linux) or 49152 on: one from there may be another process's before the
 * server has it, and was, now and then. Those below are given to nobody who does not name them; each process of the tests begins
 * elsewhere among them.
 */
import { createServer } from 'node:net'

const FIRST = 10_000
const COUNT = 10_000
/** Processes that are started one after the other lie so far apart. */
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
    // On all addresses: a server on any of them would be in the way.
    server.listen(port, () => server.close(() => resolve(true)))
  })
}
