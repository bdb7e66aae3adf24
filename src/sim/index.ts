/** Room `sim`: the same core under a virtual clock. */
export { VirtualClock } from './virtual-clock.ts'
export type { VirtualClockOptions } from './virtual-clock.ts'
