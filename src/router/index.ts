/** Room `router`: where a request runs, and why. */
export type { FleetObserver } from './fleet-observer.ts'
