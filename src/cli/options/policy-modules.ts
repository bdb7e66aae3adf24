/**
 * The parts of a routing policy that a user wrote: `--scorer`, `--filter`, `--picker`, each a module with a
 * default export. They are loaded and tried on made-up workers when the process starts, so that a mistake stops
 * the start with one line instead of failing every request.
 */
import { BatonError, seededRandom, workerIdOf } from '../../base/index.ts'
import { completeRouterConfig, KvRouter } from '../../router/index.ts'
import type { Filter, Picker, RouterOptions, Scorer } from '../../router/index.ts'
import { firstLineOf } from './first-line.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { importUserModule } from './user-module.ts'

type PolicyOptions = Pick<RouterOptions, 'scorers' | 'filters' | 'picker'>

/** Throws `config.invalid` with the option as the user wrote it and the file. */
export async function loadPolicyModules(
  options: readonly ResolvedOption[],
): Promise<PolicyOptions> {
  const scorers = await exportsOf(options, 'scorer')
  const filters = await exportsOf(options, 'filter')
  const pickers = await exportsOf(options, 'picker')
  const loaded = [...scorers, ...filters, ...pickers]
  if (loaded.length === 0) return {}
  if (pickers.length > 1) {
    throw new BatonError('config.invalid', `${pickers[1]?.from}: there can be only one picker`)
  }
  // Each part is tried alone first, so that the message names its file.
  for (const part of loaded) tryOut(part, policyOf([part]))
  const policy = policyOf(loaded)
  tryOut({ ...(loaded[0] as Loaded), from: loaded.map(({ from }) => from).join(', ') }, policy)
  return policy
}

interface Loaded {
  readonly kind: 'scorer' | 'filter' | 'picker'
  readonly value: unknown
  /** Option and file, for error messages. */
  readonly from: string
}

function policyOf(parts: readonly Loaded[]): PolicyOptions {
  const of = (kind: Loaded['kind']): unknown[] =>
    parts.filter((part) => part.kind === kind).map(({ value }) => value)
  const [picker = null] = of('picker')
  // `tryOut` checks that they have the right shape.
  return {
    scorers: of('scorer') as Scorer[],
    filters: of('filter') as Filter[],
    picker: picker as Picker | null,
  }
}

/** Several files separated by commas; a module may export a list. */
async function exportsOf(
  options: readonly ResolvedOption[],
  kind: Loaded['kind'],
): Promise<Loaded[]> {
  const given = options.find(({ option }) => option.key === kind)
  if (given === undefined || typeof given.value !== 'string') return []
  const loaded: Loaded[] = []
  for (const file of given.value.split(',')) {
    const from = `${given.writtenAs} ${file}`
    const value = await defaultExport(file, from)
    const values: readonly unknown[] = Array.isArray(value) ? value : [value]
    if (values.length === 0)
      throw new BatonError('config.invalid', `${from}: the exported list is empty`)
    for (const one of values) loaded.push({ kind, value: one, from })
  }
  return loaded
}

async function defaultExport(file: string, from: string): Promise<unknown> {
  const module = await importUserModule(file, from)
  if (module['default'] === undefined) {
    throw new BatonError('config.invalid', `${from}: has no default export`)
  }
  return module['default']
}

/** Makes one decision between two made-up workers. */
function tryOut({ kind, from }: Loaded, policy: PolicyOptions): void {
  const failed = (message: string): BatonError =>
    new BatonError('config.invalid', `${from}: ${message}`)
  let answer
  try {
    const config = completeRouterConfig(policy)
    const clock = { nowMs: () => 0, epochMs: () => 0, after: () => ({ cancel: () => undefined }) }
    const router = new KvRouter({ config, clock, random: seededRandom(1) })
    for (const id of [1, 2]) router.workerJoined(madeUpCard(id))
    answer = router.select({ request: MADE_UP_REQUEST, phase: 'aggregated', queuedMs: 0 })
  } catch (error) {
    throw failed(firstLineOf(error))
  }
  const { excluded } = answer.record
  const broken = excluded.find(({ reason }) =>
    /^filtered: the filter (threw|returned)/.test(reason),
  )
  if (broken !== undefined) throw failed(broken.reason.replace('filtered: ', ''))
  const refused = answer.kind === 'refused' ? answer.error : null
  if (refused?.code === 'runtime.internal' && kind !== 'filter') throw failed(refused.message)
}

const madeUpCard = (id: number) => ({
  workerId: workerIdOf(id),
  mode: 'agg' as const,
  host: 'localhost',
  port: 1,
  engine: { model: 'model', kvCacheBlockSize: 16, totalKvBlocks: 1024 },
  engineName: 'none',
  publishesKvEvents: false,
  version: '0',
})

const MADE_UP_REQUEST = {
  requestId: 'try-out',
  model: 'model',
  tokenIds: Uint32Array.from({ length: 64 }, (_, i) => i),
  sampling: {},
  stop: {},
  output: {},
  eosTokenIds: [],
  routing: {},
}
