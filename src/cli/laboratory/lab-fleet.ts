/**
 * Builds the simulated workers and the router from flags, or from the `baton.yaml` of a server.
 *
 * Without a configuration file the engine has the laboratory's defaults (blocks of 64 tokens, 16,384 blocks,
 * 256 sequences); with one it is the engine that `baton serve --engine sim` would start.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import { mockArgFiles } from '../../host/index.ts'
import type { RoleControllerOptions, RouterOptions } from '../../router/index.ts'
import { mockEngineOptions } from '../../simengine/index.ts'
import type { SchedulerOptions } from '../../simengine/index.ts'
import type { FleetGroup, RequestOverhead } from '../../sim/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { routerSettings } from '../options/router-settings.ts'
import { simSettings } from '../options/sim-settings.ts'
import type { Flags } from './lab-flags.ts'
import { numberOf, parsePairs, refusal, saidValue, wholeOf } from './lab-pairs.ts'
import { AS_UPSTREAM, paceTiming, servedPace, upstreamCounts, withPace } from './lab-served.ts'

interface LabFleet {
  readonly workers: readonly FleetGroup[]
  readonly router: RouterOptions
  readonly migrationLimit: number
  /** Null: not given. */
  readonly frontends: number | null
  readonly contextLength: number | null
  /** Null: workers keep their roles. */
  readonly roles: Partial<RoleControllerOptions> | null
}

const WORKERS_MAX = 1_000_000
/** A server takes a share of its machine's memory. Here the results must be the same on every machine. */
const INDEX_BYTES = 512 * 1024 ** 2

export function labFleet(flags: Flags, given: readonly ResolvedOption[]): LabFleet {
  const pace = servedPace(given)
  const engine = {
    ...(pace === null ? {} : { timing: paceTiming(pace) }),
    ...engineOf(given),
    ...timingOf(flags['timing']),
  }
  const specs = (flags['workers'] as readonly string[] | undefined) ?? []
  const counted = ['aggregated', 'prefill', 'decode'].find((key) => flags[key] !== undefined)
  if (specs.length > 0 && counted !== undefined)
    throw refusal(
      '--workers',
      `use either --workers or --${counted}: both describe the whole fleet`,
    )
  const groups =
    specs.length > 0
      ? groupsOf(specs, engine)
      : topologyOf(flags, given).map((group) => ({ ...group, engine }))
  const workers = groups.map((group) => withPace(group, pace))
  checkGroups(workers)
  const { router } = routerSettings(given, INDEX_BYTES)
  refuseDirect(router, '--router-mode')
  const valueOf = (key: string): unknown => given.find(({ option }) => option.key === key)?.value
  const migrationLimit = valueOf('migrationLimit') as number
  const said = (key: string): number | null => {
    const option = given.find(({ option: { key: known } }) => known === key)
    return option === undefined || option.source === 'default' ? null : Number(option.value)
  }
  const served = {
    router,
    migrationLimit,
    frontends: said('frontends'),
    contextLength: said('contextLength'),
  }
  if (valueOf('autoRoles') !== true) return { ...served, workers, roles: null }
  return {
    ...served,
    // As in `baton serve`, only decode workers may change their role.
    workers: workers.map((group) => ({ ...group, changesRole: group.mode === 'decode' })),
    roles: { ttftGoalMs: 1000 * Number(valueOf('ttftGoal')) },
  }
}

/** Throws: with mode `direct` every request would fail. */
export function refuseDirect({ mode }: RouterOptions, flag: string): void {
  if (mode === 'direct')
    throw refusal(flag, 'direct is invalid: requests of the laboratory do not name a worker')
}

export function describeFleet(workers: readonly FleetGroup[]): string {
  return workers.map(({ mode, count, name }) => `${count} ${mode}${name ?? ''}`).join(' + ')
}

/** The engine of `baton.yaml` when there is one, otherwise of flags, variables and `--sim-args`. */
function engineOf(given: readonly ResolvedOption[]): SchedulerOptions {
  const hasFile = given.some(({ source }) => source === 'file')
  const said = hasFile
    ? given
    : given.filter(
        ({ option, source }) => source !== 'default' || ['simArgs', 'simSeed'].includes(option.key),
      )
  const isSaid = said.some(
    ({ option, source }) => source !== 'default' && /^sim|^sequences$/.test(option.key),
  )
  if (!hasFile && !isSaid) return {}
  // An option says nothing about the others: without a file they keep the laboratory's defaults.
  const settings = hasFile ? simSettings(said) : simSettings(said, {})
  const { seed: _seed, mode: _mode, ...engine } = settings
  return engine
}

function topologyOf(flags: Flags, given: readonly ResolvedOption[]): FleetGroup[] {
  // Flags describe the whole fleet: with `--aggregated 10` the workers of the file are not added.
  const isSaid = ['prefill', 'decode', 'aggregated'].some((key) => flags[key] !== undefined)
  const countOf = (key: string): number => {
    const flag = flags[key]
    if (isSaid) return flag === undefined ? 0 : countOfWorkers(`--${key}`, flag)
    const resolved = given.find(({ option }) => option.key === key)
    return resolved === undefined || resolved.source === 'default' ? 0 : Number(resolved.value)
  }
  const [prefill, decode, aggregated] = ['prefill', 'decode', 'aggregated'].map(countOf)
  const groups = [
    ['prefill', prefill!],
    ['decode', decode!],
    ['agg', aggregated!],
  ] as const
  const present = groups.filter(([, count]) => count > 0)
  if (present.length > 0) return present.map(([mode, count]) => ({ mode, count }))
  if (isSaid) throw refusal('--aggregated', 'no workers: expected at least one')
  const upstreams = upstreamCounts(given)
  if (upstreams.length === 0) return [{ mode: 'agg', count: 4 }]
  return upstreams.map(([mode, count]) => ({ mode, count, name: AS_UPSTREAM }))
}

export function groupsOf(specs: readonly string[], engine: SchedulerOptions): FleetGroup[] {
  const groups = specs.map((spec) => groupOf(spec, engine))
  checkGroups(groups)
  return groups
}

/** Throws `config.invalid` for a fleet that cannot serve any request. */
function checkGroups(groups: readonly FleetGroup[]): void {
  const present = groups.filter(({ count }) => count > 0)
  if (present.length === 0) throw refusal('--workers', 'no workers: expected at least one')
  if (present.every(({ mode }) => mode === 'prefill'))
    throw refusal('--prefill', 'no decode worker: add --decode')
}

/**
 * Parses `decode:2` or `agg:2:speed=0.25,num_gpu_blocks=8000,startup=30,cost=2`; apart from `startup` and `cost`, the
 * part after the count are arguments of the simulated engine.
 */
function groupOf(spec: string, engine: SchedulerOptions): FleetGroup {
  const [role = '', count, ...rest] = spec.split(':')
  const mode = role === 'aggregated' ? 'agg' : role
  if (mode !== 'agg' && mode !== 'prefill' && mode !== 'decode')
    throw refusal('--workers', `'${spec}': expected agg, prefill or decode before the colon`)
  if (count === undefined)
    throw refusal('--workers', `'${spec}': expected a number of workers, as in ${role}:4`)
  const pairs = parsePairs('--workers', rest.join(':'))
  const args: Record<string, unknown> = {}
  for (const [name, value] of pairs) {
    if (name === 'startup' || name === 'cost') continue
    // The engine would take 0 as an infinite speed, so it is refused here.
    if (name === 'speed' && !(Number(value) > 0))
      throw refusal('--workers', `speed=${value}: expected a number above 0`)
    args[name === 'speed' ? 'speedup_ratio' : name] = saidValue(value)
  }
  const own = Object.keys(args).length === 0 ? {} : engineArgs(args)
  const startup = pairs.get('startup')
  const cost = pairs.get('cost')
  const shown = [...pairs].filter(([name]) => name !== 'cost').map((pair) => pair.join('='))
  const { mode: _mode, ...ownEngine } = own as SchedulerOptions & { mode?: unknown }
  return {
    mode,
    count: countOfWorkers('--workers', count),
    engine: { ...engine, ...ownEngine },
    ...(startup === undefined ? {} : { startupMs: 1000 * numberOf('--workers startup', startup) }),
    ...(cost === undefined ? {} : { cost: numberOf('--workers cost', cost) }),
    ...(shown.length === 0 ? {} : { name: ` (${shown.join(',')})` }),
  }
}

function engineArgs(args: Readonly<Record<string, unknown>>): SchedulerOptions {
  try {
    return mockEngineOptions(args, mockArgFiles)
  } catch (thrown) {
    throw refusal('--workers', BatonError.from(thrown, 'config.invalid').message)
  }
}

function countOfWorkers(flag: string, value: unknown): number {
  const count = wholeOf(flag, value)
  if (count <= WORKERS_MAX) return count
  throw refusal(flag, `${count} is invalid: expected at most ${WORKERS_MAX}`)
}

type Profiled = Pick<SchedulerOptions, 'timing' | 'promptsPerStep' | 'promptChunk'>

/** From a file of `baton profile`, or from the `timing` of the engine's arguments. */
function timingOf(path: Flags[string]): Profiled {
  if (path === undefined) return {}
  const read = readJson('--timing', String(path))
  const timing = isRecord(read) && isRecord(read['timing']) ? read['timing'] : read
  const { timing: checked } = mockEngineOptions({ timing }, mockArgFiles)
  const schedule = isRecord(read) && isRecord(read['schedule']) ? read['schedule'] : {}
  return {
    ...(checked === undefined ? {} : { timing: checked }),
    ...wholeIn(schedule, 'promptsPerStep'),
    ...wholeIn(schedule, 'promptChunk'),
  }
}

/**
 * `--overhead`: milliseconds per request and per 1,000 tokens, or a file of `baton profile`; without it the
 * overhead in the file of `--timing`.
 */
export function overheadOf(flags: Flags): RequestOverhead | null {
  const { overhead, timing } = flags
  if (typeof overhead === 'string' && /^[\d.]+(,[\d.]+)?$/.test(overhead)) {
    const [requestMs, perThousand = 0] = overhead
      .split(',')
      .map((part) => numberOf('--overhead', part))
    return { requestMs: requestMs!, msPerToken: perThousand / 1000 }
  }
  const path = overhead ?? timing
  if (path === undefined) return null
  const read = readJson(overhead === undefined ? '--timing' : '--overhead', String(path))
  const measured = isRecord(read) && isRecord(read['overhead']) ? read['overhead'] : null
  if (measured === null && overhead !== undefined)
    throw refusal('--overhead', `${String(path)} contains no overhead`)
  if (measured === null) return null
  return {
    requestMs: numberOf('overhead.requestMs', measured['requestMs'] ?? 0),
    msPerToken: numberOf('overhead.msPerToken', measured['msPerToken'] ?? 0),
  }
}

function readJson(flag: string, path: string): unknown {
  try {
    return JSON.parse(readSmallFile(path))
  } catch {
    throw refusal(flag, `${path}: not readable as JSON`)
  }
}

function wholeIn<Name extends string>(
  record: Readonly<Record<string, unknown>>,
  name: Name,
): { readonly [key in Name]?: number } {
  const value = record[name]
  if (value === undefined || value === null) return {}
  return { [name]: wholeOf(`schedule.${name}`, value, 1) } as { readonly [key in Name]: number }
}
