/**
 * Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.
 *
 * One press of Ctrl-C can arrive twice: from the terminal, and once more from npm, which forwards it. So a signal that
 * comes right behind the first is the same wish, not a second one.
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

export function watchShutdownSignals(actions: ShutdownSignalActions): ShutdownSignals {
  let firstAtMs: number | null = null
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
      actions.onSecond?.()
      process.exit(EXIT_IN_HASTE)
    }
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return {
    first,
    close: () => {
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}
