/**
 * Makes a change of role only if the workers agree. Of several frontends that decide at the same time, whether or not
 * they can reach each other, one changes one worker.
 *
 * The frontend asks every worker of the model that could change its role to hold its role for `restMs`, for this change
 * only. It asks the one with the lowest id first, so that of several frontends one gets all answers. A refusal, fewer
 * than half of the answers, or no worker that stays in the old role ends the attempt, and the holds are released. After
 * a change the holds stay, so that no frontend changes another worker before the effect can be seen.
 */
import type { WorkerId } from '../../base/index.ts'
import type { HoldAnswer } from './role-hold.ts'
import type { RoleChange } from './role-controller.ts'

export interface RoleVoters {
  /** Workers of either role that could change. */
  readonly changeable: readonly WorkerId[]
  /** Other workers in the role that loses one: those that can change, and how many cannot. */
  readonly staying: readonly WorkerId[]
  readonly fixed: number
}

export interface RoleRequests {
  /** Rejects if the worker does not answer. */
  hold(workerId: WorkerId): Promise<HoldAnswer>
  release(workerId: WorkerId): Promise<unknown>
  change(workerId: WorkerId): Promise<unknown>
}

export type RoleOutcome =
  | { readonly kind: 'changed' }
  /** `leftMs`: for how long nothing should be tried. */
  | { readonly kind: 'left'; readonly why: string; readonly leftMs: number }

export async function changeByAgreement(
  { workerId }: Pick<RoleChange, 'workerId'>,
  { changeable, staying, fixed }: RoleVoters,
  requests: RoleRequests,
): Promise<RoleOutcome> {
  const voters = changeable.toSorted((left, right) => (BigInt(left) < BigInt(right) ? -1 : 1))
  const granted = new Set<WorkerId>()
  let refusedMs = 0
  const ask = async (voter: WorkerId): Promise<void> => {
    const answer = await requests.hold(voter).catch(() => null)
    if (answer?.granted === true) granted.add(voter)
    else refusedMs = Math.max(refusedMs, answer?.leftMs ?? 0)
  }
  const [first, ...others] = voters
  if (first !== undefined) await ask(first)
  if (refusedMs === 0) await Promise.all(others.map(ask))
  const why = objection()
  if (why === null) {
    await requests.change(workerId)
    return { kind: 'changed' }
  }
  await Promise.allSettled([...granted].map((voter) => requests.release(voter)))
  return { kind: 'left', why, leftMs: refusedMs }

  function objection(): string | null {
    if (refusedMs > 0) return 'another frontend or an administrator has just changed a role'
    if (!granted.has(workerId)) return 'the worker does not answer'
    if (2 * granted.size <= voters.length) return 'too few workers answer'
    const stays = fixed > 0 || staying.some((each) => each !== workerId && granted.has(each))
    return stays ? null : 'no other worker confirms that it keeps this role'
  }
}
