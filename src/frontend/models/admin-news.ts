/**
 * What an administrator says to one frontend and all must know: which workers are drained, how much each version gets.
 */
import { isRecord } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ModelRegistry } from './model-registry.ts'

/** The worker's answer, unchecked. Rejects when it cannot be reached, or will not. */
export type CommandWorker = (
  card: WorkerCard,
  command: Readonly<Record<string, unknown>>,
) => Promise<unknown>

export type AdminNews =
  | { readonly kind: 'parked'; readonly card: WorkerCard }
  | {
      readonly kind: 'weight'
      readonly model: string
      readonly version: string
      readonly weight: number
    }

const NAME_LENGTH_MAX = 256

/** All of it, for a frontend that has just come. */
export function adminNewsOf(registry: ModelRegistry): readonly AdminNews[] {
  const parked = registry.parked.cards.map((card) => ({ kind: 'parked', card }) as const)
  const weights = registry.families.flatMap(({ name, toldWeights }) =>
    [...toldWeights].map(([version, weight]) => ({
      kind: 'weight' as const,
      model: name,
      version,
      weight,
    })),
  )
  return [...parked, ...weights]
}

/** From another frontend; what is not such a message is ignored. `checkCard` throws for what is no card. */
export function learnAdminNews(
  registry: ModelRegistry,
  news: unknown,
  checkCard: (value: unknown) => WorkerCard,
): void {
  if (!isRecord(news)) return
  const { kind, card, model, version, weight } = news
  if (kind === 'parked') {
    const parked = checkCard(card)
    // One that is in the fleet here has come back meanwhile, or has not left yet: then it is told again.
    registry.parked.park(parked)
  }
  if (kind !== 'weight' || typeof model !== 'string' || typeof version !== 'string') return
  if (!Number.isFinite(weight) || Number(weight) < 0) return
  // Of a model that has not come yet as well, but one broken frontend is not to make up models without end.
  const isBounded = [model, version].every(({ length }) => length > 0 && length <= NAME_LENGTH_MAX)
  if (isBounded && registry.mayName(model)) registry.setWeight(model, version, Number(weight))
}
