/** Says when a process that is not running is started again. Null: not. */
export function nextStart(againInMs: number | null): string {
  if (againInMs === null) return 'no other one is started'
  return againInMs === 0 ? 'starting another one' : `starting another one in ${againInMs / 1000} s`
}
