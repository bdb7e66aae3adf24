/**
 * How `baton serve` starts workers and frontends of its own: what it was told itself, as flags.
 *
 * A child reads neither its parent's variables nor a config file: the effective values were decided once, by the parent.
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
    // The frontend has drained when a worker is asked to end: it gets no more requests.
    '--grace-seconds',
    '0',
    '--config',
    devNull,
    ...told,
  ]
}

/** One of several frontends behind a port. */
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

/** `port` is passed by a variable: with `--port 0` the others take the port that the first has found. */
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

/** Added to this process's environment. What may hold a secret is not a flag, which others on this machine could see. */
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

/** Added to this process's environment for one of several frontends; secrets too. */
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
