/**
 * How a SentencePiece-like `tokenizer.json` converts blanks to `▁`: older files in the normalizer, newer ones in the
 * pre-tokenizer.
 */
import { isRecord } from '../../base/index.ts'
import type { BlankPrefix } from './spm-tokenizer.ts'

/** Null: the file does something else as well, or does not do this. */
export function readBlankPrefix(normalizer: unknown, preTokenizer: unknown): BlankPrefix | null {
  const steps = normalizerSteps(normalizer)
  if (steps === null) return null
  if (steps.replaces) {
    // The blanks have been replaced by then, so splitting at blanks has no effect.
    if (!isAbsent(preTokenizer) && !isCutAtBlanks(preTokenizer)) return null
    return { where: steps.prepends ? 'stretch' : 'never', evenBeforeBlank: true }
  }
  if (steps.prepends || !isRecord(preTokenizer)) return null
  if (preTokenizer['type'] !== 'Metaspace' || preTokenizer['replacement'] !== '▁') return null
  // Splitting at every `▁` equals what the tokenizer does anyway, unless tokens span it.
  if (preTokenizer['split'] !== false) return null
  const scheme = preTokenizer['prepend_scheme'] ?? 'always'
  if (scheme === 'never') return { where: 'never', evenBeforeBlank: false }
  return { where: scheme === 'first' ? 'start' : 'stretch', evenBeforeBlank: false }
}

interface NormalizerSteps {
  readonly prepends: boolean
  readonly replaces: boolean
}

/** Null: an unknown step, or another order. */
function normalizerSteps(normalizer: unknown): NormalizerSteps | null {
  if (isAbsent(normalizer)) return { prepends: false, replaces: false }
  if (!isRecord(normalizer)) return null
  const list: unknown = normalizer['type'] === 'Sequence' ? normalizer['normalizers'] : [normalizer]
  if (!Array.isArray(list)) return null
  let prepends = false
  let replaces = false
  for (const step of list as unknown[]) {
    if (!isRecord(step) || replaces) return null
    if (step['type'] === 'Prepend' && step['prepend'] === '▁' && !prepends) prepends = true
    else if (isReplaceOfBlanks(step)) replaces = true
    else return null
  }
  return { prepends, replaces }
}

function isReplaceOfBlanks(step: Readonly<Record<string, unknown>>): boolean {
  const pattern = step['pattern']
  return (
    step['type'] === 'Replace' &&
    step['content'] === '▁' &&
    isRecord(pattern) &&
    pattern['String'] === ' '
  )
}

function isCutAtBlanks(preTokenizer: unknown): boolean {
  if (!isRecord(preTokenizer) || preTokenizer['type'] !== 'Split') return false
  const pattern = preTokenizer['pattern']
  return isRecord(pattern) && pattern['String'] === ' '
}

function isAbsent(value: unknown): boolean {
  return value === null || value === undefined
}
