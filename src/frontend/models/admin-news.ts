/**
 * Settings that an administrator gives to one frontend and that hold in all: drained workers, weights of
 * versions.
 */
import { isRecord } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ModelRegistry } from './model-registry.ts'

/** Returns the worker's answer, unchecked. Rejects when the worker cannot be reached or refuses. */
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

/** All settings, for a frontend that has just started. */
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

/** Applies a message of another frontend; an invalid one is ignored. `checkCard` throws for an invalid card. */
export function learnAdminNews(
  registry: ModelRegistry,
  news: unknown,
  checkCard: (value: unknown) => WorkerCard,
): void {
  if (!isRecord(news)) return
  const { kind, card, model, version, weight } = news
  if (kind === 'parked') {
    const parked = checkCard(card)
    // A worker that is registered here has come back meanwhile, or has not left yet; then it is announced
    // again.
    registry.parked.park(parked)
  }
  if (kind !== 'weight' || typeof model !== 'string' || typeof version !== 'string') return
  if (!Number.isFinite(weight) || Number(weight) < 0) return
  // Also for a model that is not known yet, but within limits, so that a broken frontend cannot add models
  // without end.
  const isBounded = [model, version].every(({ length }) => length > 0 && length <= NAME_LENGTH_MAX)
  if (isBounded && registry.names.mayName(model)) registry.setWeight(model, version, Number(weight))
}
