/**
 * Every option of `baton`, once: flag, environment variable, key of the config file, type, default and explanation.
 *
 * Flags, `BATON_…` variables, `baton.yaml`, `--help`, `baton config` and docs/configuration.md all come from here.
 */
import { z } from 'zod'
import { REASONING_PARSER_NAMES, TOOL_CALL_PARSER_NAMES } from '../text/index.ts'

export type OptionGroup =
  | 'model'
  | 'engine'
  | 'topology'
  | 'http'
  | 'router'
  | 'simulated engine'
  | 'operation'

export interface OptionSpec<Key extends string = string> {
  /** camelCase; also the key in the config file. */
  readonly key: Key
  readonly group: OptionGroup
  /** Placeholder in the help, for example `<n>`; empty for a switch. */
  readonly value: string
  readonly schema: z.ZodType
  readonly default: string | number | boolean | null
  readonly help: string
  /** `baton config` does not show the value. */
  readonly isSecret?: boolean
}

const count = (min: number, max: number) =>
  z.coerce.number({ error: 'must be a number' }).int('must be a whole number').min(min).max(max)
const amount = (min: number, max: number) =>
  z.coerce.number({ error: 'must be a number' }).min(min).max(max)
const text = z.string().min(1, 'must not be empty')
const oneOf = (names: readonly string[]) =>
  z.enum(names, { error: `must be one of ${names.join(', ')}` })
const flag = z.union([
  z.boolean(),
  z.enum(['true', '1', 'yes', 'false', '0', 'no']).transform((word) => /^(true|1|yes)$/.test(word)),
])

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  k: 1024,
  m: 1024 ** 2,
  g: 1024 ** 3,
}
const byteSize = z.union([z.number(), z.string()]).transform((value, context) => {
  const match = /^([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)$/i.exec(String(value).trim())
  const unit = BYTE_UNITS[(match?.[2] ?? '').toLowerCase()]
  if (match === null || unit === undefined) {
    context.addIssue({ code: 'custom', message: 'must be a size such as 512MiB, 2GB or 1048576' })
    return z.NEVER
  }
  return Math.floor(Number(match[1]) * unit)
})

const spec = <Key extends string>(
  group: OptionGroup,
  key: Key,
  value: string,
  schema: z.ZodType,
  fallback: OptionSpec['default'],
  help: string,
): OptionSpec<Key> => ({ group, key, value, schema, default: fallback, help })

const TABLE = [
  spec(
    'model',
    'model',
    '<path>',
    text,
    null,
    'a GGUF file; with --engine sim also a Hugging Face folder (default: the model that ships with Baton)',
  ),
  spec(
    'model',
    'servedModelName',
    '<name>',
    text,
    null,
    "name that clients use (default: the model's own)",
  ),
  spec(
    'model',
    'contextLength',
    '<tokens>',
    count(16, 16_777_216),
    null,
    'tokens per request, prompt and output together (default: what the model was made for)',
  ),
  spec(
    'model',
    'reasoningParser',
    '<name>',
    oneOf(['none', ...REASONING_PARSER_NAMES]),
    null,
    'how thinking is told from the answer (default: found from the chat template and the vocabulary; none turns it off)',
  ),
  spec(
    'model',
    'toolCallParser',
    '<name>',
    oneOf(['none', ...TOOL_CALL_PARSER_NAMES]),
    null,
    'how tool calls are read (default: found from the chat template and the vocabulary; none turns it off)',
  ),
  spec(
    'engine',
    'engine',
    '<name>',
    z.enum(['llamacpp', 'sim'], { error: 'must be llamacpp or sim' }),
    'llamacpp',
    'what computes the tokens: llamacpp or sim',
  ),
  spec(
    'engine',
    'sequences',
    '<n>',
    count(1, 1024),
    8,
    'requests that one worker computes at once',
  ),
  spec(
    'engine',
    'batchSize',
    '<tokens>',
    count(16, 65_536),
    512,
    'tokens that the engine evaluates in one step',
  ),
  spec('engine', 'threads', '<n>', count(1, 1024), 1, 'threads per worker process'),
  spec(
    'engine',
    'gpu',
    '<backend>',
    z.enum(['off', 'auto', 'cuda', 'vulkan', 'metal'], {
      error: 'must be off, auto, cuda, vulkan or metal',
    }),
    'off',
    'off, auto, cuda, vulkan or metal (the variant must be installed)',
  ),
  spec('engine', 'gpuLayers', '<n>', count(0, 10_000), 0, 'layers of the model on the GPU'),
  spec(
    'engine',
    'kvStoreBytes',
    '<size>',
    byteSize,
    512 * 1024 ** 2,
    'host memory for KV blocks per worker, for example 2GiB',
  ),
  spec(
    'topology',
    'prefill',
    '<n>',
    count(0, 1024),
    null,
    'prefill workers (default 1, with --aggregated 0)',
  ),
  spec(
    'topology',
    'decode',
    '<n>',
    count(0, 1024),
    null,
    'decode workers (default 1, with --aggregated 0)',
  ),
  spec(
    'topology',
    'aggregated',
    '<n>',
    count(0, 1024),
    null,
    'workers that do both; instead of --prefill and --decode',
  ),
  spec('topology', 'inProcess', '', flag, false, 'frontend and workers in one process'),
  spec(
    'topology',
    'discoveryDir',
    '<folder>',
    text,
    null,
    'folder where workers register; frontends and workers that share it find each other',
  ),
  spec(
    'topology',
    'workerHost',
    '<address>',
    text,
    '127.0.0.1',
    'address on which workers listen and are reached',
  ),
  spec(
    'topology',
    'kvTransport',
    '<name>',
    z.enum(['auto', 'tcp', 'shm'], { error: 'must be auto, tcp or shm' }),
    'auto',
    'how KV travels: tcp, shm (one machine), or auto',
  ),
  spec(
    'topology',
    'kvFailure',
    '<policy>',
    oneOf(['recompute', 'fail']),
    'recompute',
    'when KV cannot be handed over: recompute the prompt on the decode worker, or fail the request',
  ),
  spec(
    'topology',
    'adminPort',
    '<port>',
    count(0, 65_535),
    null,
    'of baton worker: port for health, metrics and commands of an administrator (default: none; 0 takes a free one)',
  ),
  {
    ...spec(
      'topology',
      'adminToken',
      '<token>',
      text,
      null,
      'bearer token of the administrator; needed when workers do not listen on the loopback address',
    ),
    isSecret: true,
  },
  {
    ...spec(
      'topology',
      'wireSecret',
      '<text>',
      text,
      null,
      'shared secret of the fleet: frontends and workers that do not know it are turned away (better in BATON_WIRE_SECRET than as a flag, which others on the machine can see)',
    ),
    isSecret: true,
  },
  spec(
    'topology',
    'tlsCert',
    '<path>',
    text,
    null,
    "PEM certificate of this process for TLS between the fleet's processes; with --tls-key and --tls-ca",
  ),
  spec('topology', 'tlsKey', '<path>', text, null, 'PEM private key of --tls-cert'),
  spec(
    'topology',
    'tlsCa',
    '<path>',
    text,
    null,
    "PEM certificate of the fleet's own authority, which has signed the certificates of all its processes",
  ),
  spec('http', 'host', '<address>', text, '127.0.0.1', 'address of the HTTP frontend'),
  spec(
    'http',
    'port',
    '<n>',
    count(0, 65_535),
    8000,
    'port of the HTTP frontend; 0 takes a free one',
  ),
  spec('http', 'bodyLimit', '<size>', byteSize, 45 * 1024 ** 2, 'largest request body'),
  spec(
    'router',
    'routerMode',
    '<mode>',
    z.enum(['kv', 'round-robin', 'random', 'least-loaded', 'power-of-two', 'direct'], {
      error: 'must be kv, round-robin, random, least-loaded, power-of-two or direct',
    }),
    'kv',
    'kv, round-robin, random, least-loaded, power-of-two or direct',
  ),
  spec(
    'router',
    'routerConfig',
    '<path>',
    text,
    null,
    'file with all other router options, as YAML or JSON; a flag, a variable or a key of the config file goes before it',
  ),
  spec(
    'router',
    'routerKvEvents',
    '<bool>',
    flag,
    true,
    'false: workers are believed to hold what they were sent, whatever they say of their blocks',
  ),
  spec(
    'router',
    'enforceDisagg',
    '',
    flag,
    false,
    'refuse instead of serving aggregated when no prefill worker is there',
  ),
  spec(
    'router',
    'migrationLimit',
    '<n>',
    count(0, 100),
    3,
    'how often a request may go on at another worker when one dies',
  ),
  spec(
    'router',
    'overlapWeight',
    '<x>',
    amount(0, 1000),
    1,
    'weight of cached blocks against load in the kv mode',
  ),
  spec(
    'router',
    'routerTemperature',
    '<x>',
    amount(0, 100),
    0,
    '0 takes the cheapest worker, above it spreads',
  ),
  spec(
    'simulated engine',
    'simSpeedup',
    '<x>',
    amount(0, 1e9),
    1,
    'time runs this much faster; 0 gives every token at once',
  ),
  spec(
    'simulated engine',
    'simSeed',
    '<n>',
    count(0, 2 ** 32 - 1),
    1,
    'seed of the simulated tokens',
  ),
  spec(
    'operation',
    'drainSeconds',
    '<s>',
    amount(0, 86_400),
    10,
    'how long requests in flight may take to end after Ctrl-C or SIGTERM',
  ),
  spec(
    'operation',
    'graceSeconds',
    '<s>',
    amount(0, 86_400),
    5,
    'how long a worker that was told to end still takes requests, while frontends learn that it leaves',
  ),
  spec(
    'operation',
    'logLevel',
    '<level>',
    z.enum(['silent', 'error', 'warn', 'info', 'debug'], {
      error: 'must be silent, error, warn, info or debug',
    }),
    'warn',
    'silent, error, warn, info or debug',
  ),
]

export type OptionKey = (typeof TABLE)[number]['key']
export const OPTION_TABLE: readonly OptionSpec[] = TABLE

export const flagOf = (option: OptionSpec): string => `--${kebab(option.key)}`
export const variableOf = (option: OptionSpec): string =>
  `BATON_${kebab(option.key).toUpperCase().replaceAll('-', '_')}`

function kebab(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}
