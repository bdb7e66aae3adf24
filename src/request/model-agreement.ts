/**
 * What all workers of one model must have in common, because the frontend has one tokenizer, one chat template and
 * one block size per model; finds the fields in which a card differs.
 *
 * A field that one side does not report is not compared: an engine without a cache has no block size, an engine whose
 * model files are not readable has no digests.
 */
import type { EngineConfig, ModelTextDigest } from './worker-card.ts'

/** Comparable facts by the name under which a difference is reported. */
export type ModelFacts = Readonly<Partial<Record<ModelFactName, string | number>>>

const FACTS = {
  'block size': ({ engine }) => engine.kvCacheBlockSize,
  'context length': ({ engine }) => engine.contextLength,
  'embedding length': ({ engine }) => engine.embeddingLength,
  vocabulary: ({ agreement }) => agreement?.vocabulary,
  tokenizer: ({ agreement }) => agreement?.tokenizer,
  "engine's tokenizer": ({ engine }) => engine.textDigest,
  'chat template': ({ agreement }) => agreement?.template,
  'model version': ({ agreement }) => agreement?.weights,
} as const satisfies Record<string, (card: AgreeingCard) => string | number | undefined>

type ModelFactName = keyof typeof FACTS

interface AgreeingCard {
  readonly engine: EngineConfig
  readonly agreement?: ModelTextDigest
}

export interface ModelDifference {
  readonly field: ModelFactName
  readonly served: string | number
  readonly offered: string | number
}

export function modelFactsOf(card: AgreeingCard): ModelFacts {
  const facts: Partial<Record<ModelFactName, string | number>> = {}
  for (const [name, read] of Object.entries(FACTS)) {
    const value = read(card)
    if (value !== undefined) facts[name as ModelFactName] = value
  }
  return facts
}

/** The text from which a card's checksum is computed. */
export function modelFactsText(card: AgreeingCard): string {
  return JSON.stringify(Object.entries(modelFactsOf(card)))
}

export function modelDifferences(
  served: ModelFacts,
  offered: ModelFacts,
): readonly ModelDifference[] {
  const differences: ModelDifference[] = []
  for (const field of Object.keys(FACTS) as ModelFactName[]) {
    const [ours, theirs] = [served[field], offered[field]]
    if (ours === undefined || theirs === undefined || ours === theirs) continue
    differences.push({ field, served: ours, offered: theirs })
  }
  return differences
}

/** For example `block size 32 instead of 16, tokenizer 1f… instead of 9a…`. */
export function describeDifferences(differences: readonly ModelDifference[]): string {
  return differences
    .map(({ field, offered, served }) => `${field} ${shown(offered)} instead of ${shown(served)}`)
    .join(', ')
}

function shown(value: string | number): string {
  return typeof value === 'number' ? String(value) : value.slice(0, 12)
}
