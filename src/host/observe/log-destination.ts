/**
 * Where log lines are written, synchronously, so that none is lost in a forced exit.
 *
 * A disk that is full must not fail the requests that are logged, which happens inside their processing. Lines wait
 * for space up to a limit; beyond it they are dropped, and their number is logged when lines can be written again.
 */
import { destination } from 'pino'

const WAITING_BYTES_MAX = 256 * 1024

export function logDestination(fd: number): ReturnType<typeof destination> {
  const out = destination({ fd, sync: true, maxLength: WAITING_BYTES_MAX })
  let dropped = 0
  out.on('error', () => undefined)
  out.on('drop', () => {
    dropped += 1
  })
  out.on('write', () => {
    if (dropped === 0) return
    const line = {
      level: 40,
      time: Date.now(),
      dropped,
      msg: 'log lines were dropped because they could not be written',
    }
    dropped = 0
    out.write(`${JSON.stringify(line)}\n`)
  })
  return out
}
