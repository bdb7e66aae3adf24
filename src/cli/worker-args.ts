/**
 * How `baton serve` starts a worker of its own: what it was told itself, as flags.
 *
 * A child reads neither its parent's variables nor a config file: what is in force was decided once, by the parent.
 */
import { devNull } from 'node:os'
import type { DisaggregationMode } from '../request/index.ts'
import { GROUPS_OF, flagOf } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'

const GROUPS: ReadonlySet<string> = new Set(GROUPS_OF.worker)

export function workerArgs(
  options: readonly ResolvedOption[],
  mode: DisaggregationMode,
  folder: string,
): string[] {
  const told = options
    .filter(({ option, source }) => GROUPS.has(option.group) && source !== 'default')
    .filter(({ option }) => option.isSecret !== true && !OWN_KEYS.has(option.key))
    .flatMap(({ option, value }) => [flagOf(option), String(value)])
  return [
    'worker',
    '--mode',
    mode,
    '--discovery-dir',
    folder,
    // The frontend has drained when a worker is told to end: nobody sends it anything any more.
    '--grace-seconds',
    '0',
    '--config',
    devNull,
    ...told,
  ]
}

const OWN_KEYS: ReadonlySet<string> = new Set(['discoveryDir', 'graceSeconds', 'adminPort'])

/** Added to this process's environment. A secret is not a flag, which others on this machine could see. */
export function workerEnvironment(
  environment: NodeJS.ProcessEnv,
  wireSecret: string | null,
): Readonly<Record<string, string | undefined>> {
  const ours = Object.keys(environment).filter((name) => name.startsWith('BATON_'))
  return {
    ...Object.fromEntries(ours.map((name) => [name, undefined])),
    ...(wireSecret === null ? {} : { BATON_WIRE_SECRET: wireSecret }),
  }
}
