/**
 * Waits until no microtask is left, as a virtual clock needs between two timers.
 *
 * Node runs its next-tick queue only when the microtask queue is empty, so a tick requested inside a promise
 * callback runs at that moment, in a quarter of the time of `setImmediate`. Every so often it waits for a turn of
 * the event loop all the same, so that signals and real timers are handled during long simulations.
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
