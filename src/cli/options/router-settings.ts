/**
 * The router's options: those that have a flag, and all others from the file of `--router-config`.
 *
 * Flag > environment > config file > router file > default. Only commands with a router read the file; a worker
 * never opens it.
 */
import { existsSync } from 'node:fs'
import { totalmem } from 'node:os'
import { parse as parseYaml } from 'yaml'
import { BatonError } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import { completeRouterConfig, listRouterOptions, parseRouterOptions } from '../../router/index.ts'
import type { RouterOptions } from '../../router/index.ts'
import { firstLineOf } from './first-line.ts'
import type { OptionKey } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'

/** Options of the router that have a flag of their own. */
const FLAGGED: Readonly<Partial<Record<OptionKey, keyof RouterOptions>>> = {
  routerMode: 'mode',
  routerCost: 'cost',
  routerKvEvents: 'useKvEvents',
  enforceDisagg: 'enforceDisaggregation',
  overlapWeight: 'overlapScoreCredit',
  routerTemperature: 'temperature',
  routerIndexBytes: 'indexBytes',
}

const INDEX_BYTES_MIN = 64 * 1024 ** 2
const INDEX_BYTES_MAX = 2 * 1024 ** 3

interface RouterSettings {
  readonly router: RouterOptions
  /** The given options; those that have a flag are completed from the router file. */
  readonly options: readonly ResolvedOption[]
  /** The effective values of the router options without a flag. */
  readonly rows: readonly RouterRow[]
}

interface RouterRow {
  readonly path: string
  readonly value: string | number | boolean | null
  readonly from: string
}

/** Throws `config.invalid` in one line with the file's name. `indexBytes`: where none are given. */
export function routerSettings(
  given: readonly ResolvedOption[],
  indexBytes = defaultIndexBytes(),
): RouterSettings {
  const path = given.find(({ option }) => option.key === 'routerConfig')?.value as string | null
  const file = path === null ? {} : readRouterFile(path)
  const router: Record<string, unknown> = { ...file }
  const writtenAs = new Map(
    listRouterOptions(file).map((option) => [option.path, `${path}: ${option.path}`]),
  )
  const options = given.map((resolved): ResolvedOption => {
    const name = FLAGGED[resolved.option.key as OptionKey]
    if (name === undefined) return resolved
    const inFile = writtenAs.get(name)
    if (resolved.source === 'default' && inFile !== undefined) {
      return { ...resolved, value: file[name], source: 'file', writtenAs: inFile }
    }
    if (resolved.value === null && name === 'cost') return resolved
    if (resolved.value === null) {
      router[name] = indexBytes
      return { ...resolved, value: indexBytes }
    }
    router[name] = resolved.value
    if (resolved.source !== 'default') writtenAs.set(name, resolved.writtenAs)
    return resolved
  })
  const flagged = new Set<string>(Object.values(FLAGGED))
  const rows = listRouterOptions(completeRouterConfig(router))
    .filter((option) => !flagged.has(option.path))
    .map((option) => ({ ...option, from: writtenAs.get(option.path) ?? 'default' }))
  return { router, options, rows }
}

/** 1/32 of the memory that this process may use. */
function defaultIndexBytes(): number {
  const constrained = process.constrainedMemory()
  const memory = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
  return Math.floor(Math.min(INDEX_BYTES_MAX, Math.max(INDEX_BYTES_MIN, memory / 32)))
}

function readRouterFile(path: string): RouterOptions {
  if (!existsSync(path)) {
    throw new BatonError('config.invalid', `--router-config: the file ${path} does not exist`)
  }
  try {
    // YAML includes JSON.
    const options = parseRouterOptions(parseYaml(readSmallFile(path)) ?? {})
    completeRouterConfig(options)
    return options
  } catch (error) {
    throw new BatonError('config.invalid', `${path}: ${firstLineOf(error)}`, { cause: error })
  }
}
