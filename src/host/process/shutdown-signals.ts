/**
 * Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.
 *
 * One press of Ctrl-C can arrive twice: from the terminal, and once more from npm, which forwards it. So a signal that
 * comes right behind the first is the same request, not a second one.
 * Package managers run programs through a shell, which dies of a SIGTERM and hands it on to nobody: its death is the signal then.
 */
import { EXIT_IN_HASTE } from './exit-codes.ts'

interface ShutdownSignals {
  /** Resolves with the first signal. */
  readonly first: Promise<NodeJS.Signals>
  close(): void
}

interface ShutdownSignalActions {
  readonly onFirst?: () => void
  /** Ends what would be left behind; then the process exits. */
  readonly onSecond?: () => void
}

const SAME_WISH_MS = 500
const PARENT_LOOK_MS = 250

export function watchShutdownSignals(actions: ShutdownSignalActions): ShutdownSignals {
  let firstAtMs: number | null = null
  let isClosed = false
  let tell: (signal: NodeJS.Signals) => void = () => undefined
  const first = new Promise<NodeJS.Signals>((resolve) => {
    tell = resolve
  })
  const onSignal = (signal: NodeJS.Signals): void => {
    const nowMs = performance.now()
    if (firstAtMs === null) {
      firstAtMs = nowMs
      actions.onFirst?.()
      tell(signal)
    } else if (nowMs - firstAtMs > SAME_WISH_MS) {
      if (!isClosed) actions.onSecond?.()
      // What was just written to sockets leaves in this turn of the event loop.
      setImmediate(() => process.exit(EXIT_IN_HASTE))
    }
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  const unwatch = watchShell(() => onSignal('SIGTERM'))
  return {
    first,
    close: () => {
      unwatch()
      isClosed = true
      // npm's copy may come when all is done but the exit: without a listener it would be the cause of death.
      if (firstAtMs !== null) return
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}

/** npm, npx, pnpm, yarn and bun say who they are in this variable; without them nobody's end is of interest. */
function watchShell(onGone: () => void): () => void {
  if (process.env['npm_config_user_agent'] === undefined) return () => undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    onGone()
  }, PARENT_LOOK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
