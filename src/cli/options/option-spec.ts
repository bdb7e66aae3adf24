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
    'own engine',
    'upstream',
    'forwarding',
    'foreign engine',
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
    'own engine',
    'forwarding',
    'foreign engine',
    'sidecar',
    'fleet',
    'security',
    'workers',
    'lone worker',
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

export const spec = <Key extends string>(
  group: OptionGroup,
  key: Key,
  value: string,
  schema: z.ZodType,
  fallback: OptionSpec['default'],
  help: string,
): OptionSpec<Key> => ({ group, key, value, schema, default: fallback, help })
