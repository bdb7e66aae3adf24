/**
 * Refuses options that are valid alone but not together. An option that would have no effect is refused, not
 * ignored.
 */
import { BatonError } from '../../base/index.ts'
import type { OptionGroup } from './option-spec.ts'
import { flagOf } from './option-table.ts'
import { isModulePath } from './option-values.ts'
import type { ResolvedOption } from './resolve-config.ts'

/** Throws `config.invalid` in one line that names both options as the user wrote them. */
export function refuseContradictions(options: readonly ResolvedOption[]): void {
  const valueOf = (key: string): unknown => optionOf(options, key)?.value
  const named = (key: string): string => optionOf(options, key)?.writtenAs ?? key
  if (valueOf('gpuLayers') !== 0 && valueOf('gpu') === 'off') {
    throw contradiction(`${named('gpuLayers')} has no effect without --gpu: add --gpu auto`)
  }
  const places = ['discovery', 'discoveryDir'].filter((key) => valueOf(key) !== null)
  const [place, another] = places
  if (another !== undefined) {
    throw contradiction(
      `${named('discovery')} and ${named(another)} contradict each other: both say where workers register; give one`,
    )
  }
  const isMemory = /^memory:?$/.test(String(place === undefined ? '' : valueOf(place)).trim())
  if (valueOf('inProcess') === true && place !== undefined && !isMemory) {
    throw contradiction(
      `${named('inProcess')} and ${named(place)} contradict each other: workers in the same process need no discovery`,
    )
  }
  if (valueOf('inProcess') === true && Number(valueOf('frontends')) > 1) {
    throw contradiction(
      `${named('inProcess')} and ${named('frontends')} contradict each other: one process has one frontend`,
    )
  }
  const upstream = ['upstream', 'upstreamFile'].find((key) => (valueOf(key) ?? null) !== null)
  if (upstream !== undefined && Number(valueOf('frontends')) > 1) {
    throw contradiction(
      `${named(upstream)} and ${named('frontends')} contradict each other: upstreams are served by a single frontend process`,
    )
  }
  if (valueOf('state') === 'memory' && Number(valueOf('frontends')) > 1) {
    throw contradiction(
      `${named('state')} memory and ${named('frontends')} contradict each other: frontend processes do not share memory; give sqlite:<file> or off`,
    )
  }
  if (valueOf('inProcess') !== true && isMemory) {
    throw contradiction(
      `${named('discovery')} memory works in a single process only: add --in-process to baton serve`,
    )
  }
  if (valueOf('enforceDisagg') === true && place === undefined) {
    const isAggregated = Number(valueOf('aggregated') ?? 0) > 0
    if (isAggregated || valueOf('prefill') === 0) {
      throw contradiction(
        `${named('enforceDisagg')} and ${named(isAggregated ? 'aggregated' : 'prefill')} contradict each other: without a prefill worker every request would be refused`,
      )
    }
  }
  for (const part of ['scorer', 'picker']) {
    if (valueOf(part) === null || valueOf(part) === undefined || valueOf('routerMode') === 'kv')
      continue
    throw contradiction(
      `${named(part)} has no effect with --router-mode ${String(valueOf('routerMode'))}: only mode kv uses costs`,
    )
  }
  refuseWorkersBesideUpstreams(options)
  refuseOtherEngines(options)
}

const OF_OWN_WORKERS = ['prefill', 'decode', 'aggregated', 'inProcess', 'discoveryDir', 'engine']

/** A gateway starts no workers of its own. */
function refuseWorkersBesideUpstreams(options: readonly ResolvedOption[]): void {
  const upstream = ['upstream', 'upstreamFile']
    .map((key) => optionOf(options, key))
    .find((option) => option !== undefined && option.source !== 'default')
  if (upstream === undefined) return
  const other = options.find(
    ({ option, source }) => OF_OWN_WORKERS.includes(option.key) && source === 'flag',
  )
  if (other === undefined) return
  throw contradiction(
    `${other.writtenAs} and ${upstream.writtenAs} contradict each other: with upstreams no worker is started on this machine`,
  )
}

/** Groups of options that apply to one engine only. */
const ENGINE_OF_GROUP: Readonly<Partial<Record<OptionGroup, string>>> = {
  'llama.cpp engine': 'llamacpp',
  'simulated engine': 'sim',
  'custom engine': './mine.js',
  'upstream engine': 'vllm, sglang, llama-server or openai',
}

const UPSTREAM: OptionGroup = 'upstream engine'

function ownGroup(engine: string): OptionGroup {
  if (isModulePath(engine)) return 'custom engine'
  if (engine === 'llamacpp') return 'llama.cpp engine'
  return engine === 'sim' ? 'simulated engine' : UPSTREAM
}

/**
 * Only flags are refused: a flag is written for one run, while a variable or a config file may be shared by
 * several.
 */
function refuseOtherEngines(options: readonly ResolvedOption[]): void {
  const engine = String(optionOf(options, 'engine')?.value)
  const isGateway = (optionOf(options, 'upstream')?.value ?? null) !== null
  const own = isGateway ? UPSTREAM : ownGroup(engine)
  const typed = options.find(({ option, source }) => {
    const isOfAnEngine = ENGINE_OF_GROUP[option.group] !== undefined
    return isOfAnEngine && option.group !== own && source === 'flag'
  })
  if (typed === undefined) return
  const { option } = typed
  throw contradiction(
    `${flagOf(option)} has no effect with ${isGateway ? '--upstream' : `--engine ${engine}`}: it is for --engine ${ENGINE_OF_GROUP[option.group]}`,
  )
}

function optionOf(options: readonly ResolvedOption[], key: string): ResolvedOption | undefined {
  return options.find(({ option }) => option.key === key)
}

function contradiction(message: string): BatonError {
  return new BatonError('config.invalid', message)
}
