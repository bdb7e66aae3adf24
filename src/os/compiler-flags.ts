/**
 * When V8's optimising compiler takes up a function.
 *
 * V8 waits until a function has executed 66 kB of bytecode. A request is spread over hundreds of functions, so a
 * frontend is fully compiled only after ten thousand requests. With half of that from the start, the first hundreds of
 * requests would be slower, because functions that have run with few kinds of values are compiled, and later again. So
 * the limit is lowered once the process has used more CPU time than its start needs.
 */
import { setFlagsFromString } from 'node:v8'

/** From this version on V8 has a second, faster compiler (Maglev), which decides by other limits. */
const MAGLEV_VERSION = 12
const BUDGET_BYTES = 30_000
const AFTER_CPU_MS = 1_200
const LOOK_EVERY_MS = 250

/** Lowers the limit for the whole process as soon as it has used `afterCpuMs` of CPU time. */
export function compileSooner(afterCpuMs = AFTER_CPU_MS): void {
  if (Number.parseInt(process.versions.v8) >= MAGLEV_VERSION) return
  const look = (): void => {
    const { user, system } = process.cpuUsage()
    if ((user + system) / 1000 < afterCpuMs) return
    setFlagsFromString(`--interrupt-budget=${BUDGET_BYTES}`)
    clearInterval(timer)
  }
  const timer = setInterval(look, LOOK_EVERY_MS)
  timer.unref()
  look()
}
