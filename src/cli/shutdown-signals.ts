/**
 * Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends the process at once.
 */
interface ShutdownSignals {
  /** Resolves with the first signal. */
  readonly first: Promise<NodeJS.Signals>
  close(): void
}

const EXIT_IN_HASTE = 70

/** `onSecond` ends what would be left running; then the process exits. */
export function watchShutdownSignals(onSecond: () => void): ShutdownSignals {
  let count = 0
  let tell: (signal: NodeJS.Signals) => void = () => undefined
  const first = new Promise<NodeJS.Signals>((resolve) => {
    tell = resolve
  })
  const onSignal = (signal: NodeJS.Signals): void => {
    count += 1
    if (count === 1) tell(signal)
    else {
      onSecond()
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
