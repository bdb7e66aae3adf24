/**
 * Limits the connections of all addresses together, so that the rest of the process can still open files and sockets.
 * A connection above the limit is accepted and closed at once.
 */
import type { Server } from 'node:net'

const REPORT_MS = 60_000

/** `onFull` is called when a connection was closed, at most once a minute. */
export function limitConnections(server: Server, max: number, onFull: () => void): void {
  server.maxConnections = max
  let reportedMs = Number.NEGATIVE_INFINITY
  server.on('drop', () => {
    const nowMs = performance.now()
    if (nowMs - reportedMs < REPORT_MS) return
    reportedMs = nowMs
    onFull()
  })
}
