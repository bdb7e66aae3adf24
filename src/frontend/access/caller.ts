/** Who a call comes from and what it may do. */
import type { ApiKey } from './api-key.ts'

export interface Caller {
  /** Null: callers are not distinguished, or have not said who they are. */
  readonly key: ApiKey | null
  /** Metrics, decisions, thresholds, details of health. */
  readonly mayOperate: boolean
  /** Fields and headers that choose workers, priorities and the like. */
  readonly mayRoute: boolean
  /** Nobody waits for the answer: it is computed when others leave capacity. */
  readonly isBackground?: boolean
}

/** Without keys everybody who reaches the port may do everything. */
export const OPEN_CALLER: Caller = { key: null, mayOperate: true, mayRoute: true }

/** Keys are asked for, and none was given: only what is for anyone. */
export const UNKNOWN_CALLER: Caller = { key: null, mayOperate: false, mayRoute: false }

export function callerOf(key: ApiKey): Caller {
  return { key, mayOperate: key.mayOperate === true, mayRoute: key.mayRoute === true }
}
