/** The shape of a command-line option, and which commands have it. */
import type { z } from 'zod'

/** The commands that run something, each with the groups of options that it has. */
export const GROUPS_OF = {
  serve: [
    'model',
    'served model',
    'engine',
    'llama.cpp engine',
    'simulated engine',
    'custom engine',
    'upstream',
    'forwarding',
    'upstream engine',
    'topology',
    'fleet',
    'security',
    'workers',
    'http',
    'router',
    'operation',
  ],
  worker: [
    'model',
    'served model',
    'engine',
    'llama.cpp engine',
    'simulated engine',
    'custom engine',
    'forwarding',
    'upstream engine',
    'sidecar',
    'fleet',
    'security',
    'workers',
    'single worker',
    'operation',
  ],
  frontend: ['model', 'forwarding', 'fleet', 'security', 'http', 'router', 'operation'],
  looking: ['fleet', 'security'],
  boostr: ['security'],
  laboratory: ['router', 'simulated engine'],
} as const

export type OptionGroup = (typeof GROUPS_OF)[keyof typeof GROUPS_OF][number]

export interface OptionSpec<Key extends string = string> {
  /** In camelCase; also the key in the config file. */
  readonly key: Key
  readonly group: OptionGroup
  /** The placeholder in the help, for example `<n>`; empty for a switch. */
  readonly value: string
  readonly schema: z.ZodType
  readonly default: string | number | boolean | null
  readonly help: string
  /** When true, `baton config` does not show the value. */
  readonly isSecret?: boolean
  /** A variable of another standard that is used when `BATON_…` is not set. */
  readonly standardVariable?: string
}

/** Heading of a group in `--help` and in docs/configuration.md. */
export function headingOf(group: OptionGroup): string {
  if (group === 'llama.cpp engine') return group
  return group === 'http' ? 'HTTP' : `${group.charAt(0).toUpperCase()}${group.slice(1)}`
}

/** A value as a user would write it; null: there is none. */
export function shownValue(
  option: OptionSpec,
  value: string | number | boolean | null,
): string | null {
  if (typeof value === 'number' && option.value === '<size>') return shownSize(value)
  return value === null ? null : String(value)
}

function shownSize(bytes: number): string {
  const [unit, size] = SIZES.find(([, unitBytes]) => bytes % unitBytes === 0) ?? ['', 1]
  return `${bytes / size}${unit}`
}

const SIZES = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
] as const

export const spec = <Key extends string>(
  group: OptionGroup,
  key: Key,
  value: string,
  schema: z.ZodType,
  fallback: OptionSpec['default'],
  help: string,
): OptionSpec<Key> => ({ group, key, value, schema, default: fallback, help })
