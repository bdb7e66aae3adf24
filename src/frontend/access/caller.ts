/** Who makes a call and what the caller may do. */
import type { ApiKey } from './api-key.ts'

export interface Caller {
  /** Null: no keys are required, or the call has no key. */
  readonly key: ApiKey | null
  /** Allows metrics, routing decisions, thresholds and details of health. */
  readonly mayOperate: boolean
  /** Allows fields and headers that choose workers, priorities and the like. */
  readonly mayRoute: boolean
  /** True for batch requests: they are computed only when other requests leave capacity. */
  readonly isBackground?: boolean
}

/** Without keys everybody who reaches the port may do everything. */
export const OPEN_CALLER: Caller = { key: null, mayOperate: true, mayRoute: true }

/** Keys are required and none was given: only public routes are allowed. */
export const UNKNOWN_CALLER: Caller = { key: null, mayOperate: false, mayRoute: false }

export function callerOf(key: ApiKey): Caller {
  return { key, mayOperate: key.mayOperate === true, mayRoute: key.mayRoute === true }
}
