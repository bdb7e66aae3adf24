/**
 * Finds the version that an administrator names: by its hash or a prefix of it, by `model@hash` as metrics and the
 * console show it, or by the `--model-version` of its workers.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { versionOf } from './model-family.ts'
import type { ModelRegistry } from './model-registry.ts'

interface NamedVersion {
  readonly model: string
  /** The hash. */
  readonly version: string
  /** From `--model-version`, or a fingerprint of the model's weights; absent: no worker states one. */
  readonly modelVersion?: string
}

/** From all workers of the version, served or refused. */
export function modelVersionOf(cards: readonly WorkerCard[]): string | undefined {
  return cards.find(({ agreement }) => agreement?.weights !== undefined)?.agreement?.weights
}

/** Throws `request.invalid_argument` with the known versions, and 404 for an unknown model. */
export function meantVersion(
  registry: ModelRegistry,
  asked: string,
  model: string | undefined,
): NamedVersion {
  const name = model === undefined ? undefined : registry.names.known(model).name
  const all = namedVersions(registry).filter((each) => name === undefined || each.model === name)
  const exact = all.filter((each) => namesOf(each).includes(asked))
  const meant = exact.length > 0 ? exact : all.filter(({ version }) => version.startsWith(asked))
  const [first, ...others] = meant
  if (first !== undefined && others.length === 0) return first
  const there = all.map(shown).join(', ')
  const why = meant.length === 0 ? 'is not a known version' : 'matches more than one version'
  throw new BatonError(
    'request.invalid_argument',
    `\`version\`: ${JSON.stringify(asked)} ${why}; there ${all.length === 1 ? 'is' : 'are'} ${there === '' ? 'none' : there}`,
    { data: { param: 'version' } },
  )
}

function namesOf({ model, version, modelVersion }: NamedVersion): readonly string[] {
  const named = modelVersion === undefined ? [] : [modelVersion, `${model}@${modelVersion}`]
  return [version, `${model}@${version}`, ...named]
}

function shown({ model, version, modelVersion }: NamedVersion): string {
  return `${model}@${version}${modelVersion === undefined ? '' : ` (${modelVersion})`}`
}

/** Each version once, including refused ones. */
function namedVersions({ families }: ModelRegistry): readonly NamedVersion[] {
  const found = new Map<string, NamedVersion>()
  const add = (model: string, version: string, cards: readonly WorkerCard[]): void => {
    const modelVersion = modelVersionOf(cards)
    const named = modelVersion === undefined ? {} : { modelVersion }
    found.set(`${model}@${version}`, { model, version, ...named })
  }
  for (const { name, versions } of families) {
    for (const { refused } of versions)
      for (const { card } of refused) add(name, versionOf(card), [card])
    for (const { version, cards } of versions) add(name, version, cards)
  }
  return [...found.values()]
}
