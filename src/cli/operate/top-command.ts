/**
 * `baton top`: shows the fleet in a terminal and refreshes it. Works over ssh and in a narrow window; without
 * colours when `NO_COLOR` is set; one screen below the other when the output is no terminal, or a dumb one.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError } from '../../base/index.ts'
import type { FleetView } from '../../frontend/index.ts'
import { watchShutdownSignals } from '../../host/index.ts'
import { takesColor, takesEscapes } from '../../os/index.ts'
import { outputLost } from '../guard/lost-output.ts'
import type { FleetSource } from './fleet-source.ts'
import { topScreen } from './top-screen.ts'
import type { Screen } from './top-screen.ts'

interface TopOptions {
  readonly source: FleetSource
  readonly intervalMs: number
  /** Print one screen, then exit. */
  readonly once: boolean
  readonly json: boolean
}

const HOME = '\u001B[H'
const CLEAR_LINE = '\u001B[K'
const CLEAR_BELOW = '\u001B[J'
const OTHER_SCREEN = '\u001B[?1049h\u001B[?25l'
const FIRST_SCREEN = '\u001B[?25h\u001B[?1049l'

export async function runTop(options: TopOptions): Promise<number> {
  const isLive = takesEscapes(process.stdout) && !options.once && !options.json
  const signals = watchShutdownSignals({ onSecond: () => undefined })
  const over = new AbortController()
  void signals.first.then(() => over.abort())
  const keys = isLive ? watchKeys(() => over.abort()) : null
  if (isLive) process.stdout.write(OTHER_SCREEN)
  try {
    await show(options, isLive, AbortSignal.any([over.signal, outputLost]))
    return 0
  } finally {
    if (isLive) process.stdout.write(FIRST_SCREEN)
    keys?.close()
    signals.close()
    await options.source.close()
  }
}

async function show(options: TopOptions, isLive: boolean, signal: AbortSignal): Promise<void> {
  const { source, intervalMs, once, json } = options
  let before: FleetView | null = null
  while (!signal.aborted) {
    // A server that is unreachable for a moment does not end the display.
    const read = await source.fleet().catch((error: unknown) => {
      if (isLive && before !== null) return BatonError.from(error)
      throw error
    })
    if (read instanceof BatonError) print([`${source.name}: ${read.message}`], isLive)
    else if (json) console.log(JSON.stringify(read))
    else print(topScreen(source.name, read, before, screenOf(isLive)), isLive)
    if (!(read instanceof BatonError)) before = read
    if (once) return
    await sleep(intervalMs, undefined, { signal }).catch(() => undefined)
  }
}

function print(lines: readonly string[], isLive: boolean): void {
  if (!isLive) console.log(lines.join('\n'))
  else {
    process.stdout.write(
      `${HOME}${lines.map((line) => line + CLEAR_LINE).join('\r\n')}${CLEAR_BELOW}`,
    )
  }
}

function screenOf(isLive: boolean): Screen {
  // Undefined when the output is not a terminal.
  const size = process.stdout as { readonly columns?: number; readonly rows?: number }
  return {
    columns: Number(process.env['COLUMNS'] ?? '') || (size.columns ?? 100),
    rows: isLive ? (size.rows ?? 40) : Number.MAX_SAFE_INTEGER,
    hasColor: takesColor(process.stdout),
  }
}

/** Handles `q` and Ctrl-C; the terminal is in raw mode, so that a key works without Enter. */
function watchKeys(onQuit: () => void): { close(): void } {
  const { stdin } = process
  if (!stdin.isTTY) return { close: () => undefined }
  const onKey = (key: Buffer): void => {
    if (key.includes('q') || key.includes(3)) onQuit()
  }
  stdin.setRawMode(true)
  stdin.on('data', onKey)
  return {
    close: () => {
      stdin.off('data', onKey)
      stdin.setRawMode(false)
      stdin.pause()
    },
  }
}
