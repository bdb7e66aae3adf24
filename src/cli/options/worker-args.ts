/**
 * The arguments and environment with which `baton serve` starts its own workers and frontends.
 *
 * The parent passes the effective values as flags; a child reads neither the parent's `BATON_…` variables nor a
 * config file.
 */
import { devNull } from 'node:os'
import type { DisaggregationMode } from '../../request/index.ts'
import { GROUPS_OF } from './option-spec.ts'
import { flagOf, variableOf } from './option-table.ts'
import type { OptionSpec } from './option-spec.ts'
import type { ResolvedOption } from './resolve-config.ts'

export function workerArgs(
  options: readonly ResolvedOption[],
  mode: DisaggregationMode | 'auto',
): string[] {
  const told = toldTo(options, GROUPS_OF.worker, OWN_KEYS)
  return [
    'worker',
    '--mode',
    mode,
    // When a worker is told to stop here, the frontend has already drained, so no more requests come.
    '--grace-seconds',
    '0',
    '--config',
    devNull,
    ...told,
  ]
}

/** The arguments of one of several frontends behind a port. */
export function frontendArgs(options: readonly ResolvedOption[]): string[] {
  const told = toldTo(options, GROUPS_OF.frontend, FRONTEND_OWN_KEYS)
  return ['frontend', '--config', devNull, ...told]
}

function toldTo(
  options: readonly ResolvedOption[],
  groups: readonly string[],
  except: ReadonlySet<string>,
): string[] {
  return options
    .filter(({ option, source }) => inGroups(option, groups) && source !== 'default')
    .filter(({ option }) => option.isSecret !== true && !except.has(option.key))
    .flatMap(({ option, value }) => {
      if (option.value !== '') return [flagOf(option), String(value)]
      return value === true ? [flagOf(option)] : []
    })
}

/** `port` is passed as a variable: with `--port 0` the others take the port that the first has found. */
const FRONTEND_OWN_KEYS: ReadonlySet<string> = new Set([
  'discovery',
  'discoveryDir',
  'frontends',
  'port',
])

const OWN_KEYS: ReadonlySet<string> = new Set([
  'mode',
  'discovery',
  'discoveryDir',
  'graceSeconds',
  'adminPort',
])

/**
 * Environment variables added for a worker. Values that may contain a secret are passed here, because other
 * users of the machine could see flags.
 */
export function workerEnvironment(
  environment: NodeJS.ProcessEnv,
  { discovery, wireSecret }: { readonly discovery: string; readonly wireSecret: string | null },
): Readonly<Record<string, string | undefined>> {
  const ours = Object.keys(environment).filter((name) => name.startsWith('BATON_'))
  return {
    ...Object.fromEntries(ours.map((name) => [name, undefined])),
    BATON_DISCOVERY: discovery,
    ...(wireSecret === null ? {} : { BATON_WIRE_SECRET: wireSecret }),
  }
}

/** Environment variables added for one of several frontends, including secrets. */
export function frontendEnvironment(
  options: readonly ResolvedOption[],
  environment: NodeJS.ProcessEnv,
  { meeting, port }: { readonly meeting: string; readonly port: number },
): Readonly<Record<string, string | undefined>> {
  const secrets = options.filter(
    ({ option, value }) =>
      option.isSecret === true && value !== null && inGroups(option, GROUPS_OF.frontend),
  )
  return {
    ...workerEnvironment(environment, { discovery: meeting, wireSecret: null }),
    ...Object.fromEntries(secrets.map(({ option, value }) => [variableOf(option), String(value)])),
    BATON_PORT: String(port),
  }
}

function inGroups({ group }: OptionSpec, groups: readonly string[]): boolean {
  return groups.includes(group)
}
