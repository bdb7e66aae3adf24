/**
 * Lets a process end in order after its terminal is gone, because the window was closed or a connection of ssh was lost.
 */
import { closeSync, openSync } from 'node:fs'
import { isatty } from 'node:tty'

const STANDARD_FDS = [0, 1, 2]

/**
 * At exit Node restores the settings of each terminal that the process was started with, and aborts (SIGABRT) when the
 * terminal no longer exists. It leaves out a descriptor that is another file by then, so those of a terminal that is
 * gone become /dev/null. Called once, at the start, while the terminal still exists.
 */
export function outliveTerminal(): void {
  const terminals = STANDARD_FDS.filter((fd) => isatty(fd))
  if (terminals.length === 0) return
  process.on('exit', () => {
    for (const fd of terminals) {
      if (isatty(fd)) continue
      // The file that is opened next gets the number that was closed.
      closeSync(fd)
      openSync('/dev/null', 'r+')
    }
  })
}
