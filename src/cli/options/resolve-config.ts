/**
 * Resolves every option with the precedence flag > environment > file > default, and records where each value
 * came from.
 *
 * An invalid value ends in one line that names the option as the user wrote it (`config.invalid`).
 */
import { existsSync } from 'node:fs'
import { parse as parseYaml } from 'yaml'
import { BatonError } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import { firstLineOf } from './first-line.ts'
import type { OptionSpec } from './option-spec.ts'
import { OPTION_TABLE, flagOf, variableOf } from './option-table.ts'

type ValueSource = 'flag' | 'environment' | 'file' | 'default'

export interface ResolvedOption {
  readonly option: OptionSpec
  readonly value: unknown
  readonly source: ValueSource
  /** How the user wrote the option: `--port`, `BATON_PORT`, `baton.yaml: port`. */
  readonly writtenAs: string
}

export interface ConfigInput {
  readonly flags: Readonly<Record<string, unknown>>
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The path of `--config`; without it `baton.yaml` in the working folder is read when it exists. */
  readonly file?: string | undefined
}

/** Variables that belong to Baton but not to an option. */
const OTHER_VARIABLES = new Set(['BATON_CONFIG', 'BATON_URL', 'BATON_API_KEY'])

export function resolveConfig(given: ConfigInput): readonly ResolvedOption[] {
  const input = { ...given, environment: withoutServiceLinks(given.environment) }
  const file =
    input.file === undefined
      ? readConfigFile(input.environment['BATON_CONFIG'], 'BATON_CONFIG')
      : readConfigFile(input.file, '--config')
  refuseUnknown(input.environment, file)
  return OPTION_TABLE.map((option) => resolveOption(option, input, file))
}

/**
 * Kubernetes sets variables for every Service in every pod: a Service `baton` gives
 * `BATON_PORT=tcp://10.0.0.1:8000`, `BATON_SERVICE_HOST`, `BATON_PORT_8000_TCP_ADDR` and more. They are not
 * options of Baton and are removed.
 */
function withoutServiceLinks(environment: ConfigInput['environment']): ConfigInput['environment'] {
  const ours = Object.entries(environment).filter(([name, value]) => !isServiceLink(name, value))
  return Object.fromEntries(ours)
}

function isServiceLink(name: string, value: string | undefined): boolean {
  if (!name.startsWith('BATON_')) return false
  if (/_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$/.test(name)) return true
  if (/_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/.test(name)) return true
  return name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value ?? '')
}

function resolveOption(option: OptionSpec, input: ConfigInput, file: ConfigFile): ResolvedOption {
  const flag = input.flags[option.key]
  if (flag !== undefined) return checked(option, flag, 'flag', flagOf(option))
  const variable = input.environment[variableOf(option)]
  if (variable !== undefined) return checked(option, variable, 'environment', variableOf(option))
  const { standardVariable = '' } = option
  const standard = input.environment[standardVariable]
  // The OpenTelemetry specification treats an empty variable as not set.
  if (standard !== undefined && standard !== '')
    return checked(option, standard, 'environment', standardVariable)
  // A key without a value counts as not given.
  const written = file.values[option.key] ?? undefined
  if (written !== undefined) return checked(option, written, 'file', `${file.path}: ${option.key}`)
  return { option, value: option.default, source: 'default', writtenAs: flagOf(option) }
}

function checked(
  option: OptionSpec,
  raw: unknown,
  source: ValueSource,
  writtenAs: string,
): ResolvedOption {
  const parsed = option.schema.safeParse(raw)
  if (parsed.success) return { option, value: parsed.data, source, writtenAs }
  const reasons = [...new Set(parsed.error.issues.map((issue) => issue.message))].join(', ')
  throw new BatonError(
    'config.invalid',
    `${writtenAs}: ${JSON.stringify(raw)} is invalid: expected ${reasons}`,
    {
      data: { option: option.key },
    },
  )
}

interface ConfigFile {
  readonly path: string
  readonly values: Readonly<Record<string, unknown>>
}

function readConfigFile(path: string | undefined, writtenAs: string): ConfigFile {
  const chosen = path ?? 'baton.yaml'
  if (!existsSync(chosen)) {
    if (path === undefined) return { path: chosen, values: {} }
    throw new BatonError('config.invalid', `${writtenAs}: the file ${chosen} does not exist`)
  }
  let content: unknown
  try {
    content = parseYaml(readSmallFile(chosen)) ?? {}
  } catch (error) {
    throw new BatonError(
      'config.invalid',
      `${chosen}: not readable as YAML: ${firstLineOf(error)}`,
      {
        cause: error,
      },
    )
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new BatonError(
      'config.invalid',
      `${chosen} is invalid: expected a mapping of 'option: value' lines`,
    )
  }
  return { path: chosen, values: content as Record<string, unknown> }
}

function refuseUnknown(environment: ConfigInput['environment'], file: ConfigFile): void {
  const keys = new Set(OPTION_TABLE.map((option) => option.key))
  const unknownKey = Object.keys(file.values).find((key) => !keys.has(key))
  if (unknownKey !== undefined) {
    throw new BatonError(
      'config.invalid',
      `${file.path}: unknown option '${unknownKey}'; baton config lists them`,
    )
  }
  const variables = new Set(OPTION_TABLE.map(variableOf))
  const unknownVariable = Object.keys(environment).find(
    (name) => name.startsWith('BATON_') && !variables.has(name) && !OTHER_VARIABLES.has(name),
  )
  if (unknownVariable !== undefined) {
    throw new BatonError(
      'config.invalid',
      `unknown environment variable ${unknownVariable}; baton config lists them`,
    )
  }
}
