/**
 * Waits until no microtask is left: what a virtual clock needs between two timers.
 *
 * Node runs its next-tick queue only when the queue of microtasks is empty, so a tick that is asked for inside a promise
 * says just that, at a quarter of the time of `setImmediate`. Every so often a turn of the event loop is taken all the
 * same: signals and real timers must be handled in a run of minutes.
 */
const TICKS_PER_TURN = 256

let ticks = 0

export function settle(): Promise<void> {
  ticks = (ticks + 1) % TICKS_PER_TURN
  return new Promise((resolve) => {
    if (ticks === 0) setImmediate(resolve)
    else process.nextTick(resolve)
  })
}
