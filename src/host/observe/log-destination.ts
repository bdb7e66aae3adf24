/**
 * Where log lines are written, synchronously, so that none is lost in a forced exit.
 *
 * A disk that is full must not fail the requests that are logged, which happens inside their processing. Lines wait
 * for space up to a limit; beyond it they are dropped, and their number is logged when lines can be written again.
 * A single line above the limit is shortened, because it would be dropped even if the disk has space.
 */
import { destination } from 'pino'

const WAITING_BYTES_MAX = 256 * 1024
const UTF8_BYTES_MAX = 3
/** Of each end of a line that is too long. */
const KEPT_CHARACTERS = 8 * 1024
const WARN = 40
/** What every line begins with. */
const HEAD = /^\{"level":(\d{1,3}),"time":(\d{1,16}),/

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
      level: WARN,
      time: Date.now(),
      dropped,
      msg: 'log lines were dropped because they could not be written',
    }
    dropped = 0
    out.write(`${JSON.stringify(line)}\n`)
  })
  const write = out.write.bind(out)
  out.write = (line) => write(isTooLong(line) ? shortened(line) : line)
  return out
}

function isTooLong(line: string): boolean {
  if (line.length * UTF8_BYTES_MAX <= WAITING_BYTES_MAX) return false
  return Buffer.byteLength(line) > WAITING_BYTES_MAX
}

/** Level and time stay; the line's own message is at its end. */
function shortened(line: string): string {
  const [, level = WARN, time = Date.now()] = HEAD.exec(line) ?? []
  const short = {
    level: Number(level),
    time: Number(time),
    characters: line.length,
    beginning: line.slice(0, KEPT_CHARACTERS),
    end: line.slice(-KEPT_CHARACTERS),
    msg: 'a log line was too long: its beginning and its end',
  }
  return `${JSON.stringify(short)}\n`
}
