/**
 * Handles Ctrl-C and SIGTERM: the first signal starts an orderly shutdown, the second ends the process at once.
 *
 * One press of Ctrl-C can arrive twice, from the terminal and from npm, which forwards it. A signal right after the
 * first is therefore treated as the same one.
 * SIGHUP means that the terminal was closed, which counts as the signal too. Without a terminal it is ignored: by
 * custom it asks for a reload, and files of keys and certificates are reloaded by themselves when they change.
 * Package managers run programs through a shell, which dies of a SIGTERM without forwarding it; then the death of
 * the shell counts as the signal.
 */
import { isatty } from 'node:tty'
import { EXIT_IN_HASTE } from './exit-codes.ts'

interface ShutdownSignals {
  /** Resolves with the first signal. */
  readonly first: Promise<NodeJS.Signals>
  close(): void
}

interface ShutdownSignalActions {
  readonly onFirst?: () => void
  /** Called before the process exits at once, to end what would be left behind. The exit waits for its promise. */
  readonly onSecond?: () => void | Promise<void>
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
      const ended = isClosed ? undefined : actions.onSecond?.()
      // Data that was just written to sockets is sent in this turn of the event loop.
      const exit = (): void => void setImmediate(() => process.exit(EXIT_IN_HASTE))
      if (ended === undefined) exit()
      else void ended.finally(exit)
    }
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  const hasTerminal = isatty(0) || isatty(1)
  const onHangUp = (): void => {
    if (hasTerminal) onSignal('SIGHUP')
  }
  process.on('SIGHUP', onHangUp)
  const unwatch = watchShell(() => onSignal('SIGTERM'))
  return {
    first,
    close: () => {
      unwatch()
      isClosed = true
      // npm's copy of the signal may arrive just before the exit; without a listener it would kill the process.
      if (firstAtMs !== null) return
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
      process.off('SIGHUP', onHangUp)
    },
  }
}

/** npm, npx, pnpm, yarn and bun set this variable; without them the parent's death does not matter. */
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
