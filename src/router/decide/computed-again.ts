/** Which cached tokens a prompt would compute again, because they are not computed yet; see `OpenPrompts`. */
import type { SequenceHashes } from '../../kv/index.ts'
import type { OpenPrompts } from '../load/open-prompts.ts'
import type { OverlapIndex } from '../load/overlap-index.ts'
import type { RankBacklog } from '../load/rank-backlog.ts'

interface PoolLoad {
  readonly index: OverlapIndex
  readonly backlog: RankBacklog
  readonly open: OpenPrompts
}

/** Adds the expected number of such tokens for each rank that is computing a prefix of the prompt. */
export function addComputedAgain(
  { index, backlog, open }: PoolLoad,
  { sequence }: SequenceHashes,
  blockSize: number,
  nowMs: number,
  again: Float64Array,
): void {
  if (open.isEmpty) return
  const { device, holders, count } = index.matches
  let cached = 0
  for (let i = 0; i < count; i++) {
    const blocks = device[holders[i] as number] as number
    if (blocks > cached) cached = blocks
  }
  open.find(sequence, cached, ({ slot, firstNew, isHeld, isLong }) => {
    const share = isHeld || isLong ? 1 : backlog.joinShare(slot, nowMs)
    const tokens = Math.round(share * ((device[slot] as number) - firstNew) * blockSize)
    if (tokens > (again[slot] as number)) again[slot] = tokens
  })
}
