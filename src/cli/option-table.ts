/**
 * Every option of `baton`, once: flag, environment variable, key of the config file, type, default and explanation.
 *
 * Flags, `BATON_…` variables, `baton.yaml`, `--help`, `baton config` and docs/configuration.md all come from here.
 */
import type { z } from 'zod'
import { SHARED_MEMORY } from '../host/index.ts'
import { ROUTER_MODES } from '../router/index.ts'
import { REASONING_PARSER_NAMES, TOOL_CALL_PARSER_NAMES } from '../text/index.ts'
import {
  amount,
  byteSize,
  count,
  flag,
  oneOf,
  pairList,
  taintList,
  text,
  textOrObject,
} from './option-values.ts'

/** The commands that run something; each takes the options of its groups. */
export const GROUPS_OF = {
  serve: [
    'model',
    'served model',
    'engine',
    'llama.cpp engine',
    'simulated engine',
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
    'fleet',
    'security',
    'workers',
    'lone worker',
    'operation',
  ],
  frontend: ['model', 'fleet', 'security', 'http', 'router', 'operation'],
  boostr: ['security'],
} as const

export type OptionGroup = (typeof GROUPS_OF)[keyof typeof GROUPS_OF][number]

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
    'served model',
    'servedModelName',
    '<name>',
    text,
    null,
    "name that clients use (default: the model's own)",
  ),
  spec(
    'served model',
    'contextLength',
    '<tokens>',
    count(16, 16_777_216),
    null,
    'tokens per request, prompt and output together (default: what the model was made for)',
  ),
  spec(
    'served model',
    'reasoningParser',
    '<name>',
    oneOf(['none', ...REASONING_PARSER_NAMES]),
    null,
    'how thinking is told from the answer (default: found from the chat template and the vocabulary; none turns it off)',
  ),
  spec(
    'served model',
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
    oneOf(['llamacpp', 'sim']),
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
    'llama.cpp engine',
    'batchSize',
    '<tokens>',
    count(16, 65_536),
    512,
    'tokens that the engine evaluates in one step',
  ),
  spec('llama.cpp engine', 'threads', '<n>', count(1, 1024), 1, 'threads per worker process'),
  spec(
    'llama.cpp engine',
    'gpu',
    '<backend>',
    oneOf(['off', 'auto', 'cuda', 'vulkan', 'metal']),
    'off',
    'off, auto, cuda, vulkan or metal (the variant must be installed)',
  ),
  spec(
    'llama.cpp engine',
    'gpuLayers',
    '<n>',
    count(0, 10_000),
    0,
    'layers of the model on the GPU',
  ),
  spec(
    'llama.cpp engine',
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
    'fleet',
    'discoveryDir',
    '<folder>',
    text,
    null,
    'folder where workers register; frontends and workers that share it find each other',
  ),
  spec(
    'workers',
    'workerHost',
    '<address>',
    text,
    '127.0.0.1',
    'address on which workers listen and are reached',
  ),
  spec(
    'workers',
    'kvTransport',
    '<name>',
    oneOf(['auto', 'tcp', 'shm']),
    'auto',
    'how KV travels: tcp, shm (one machine), or auto',
  ),
  spec(
    'workers',
    'kvShmDir',
    '<folder>',
    text,
    SHARED_MEMORY,
    'memory file system through which KV travels within one machine; mounted with huge pages it is twice as fast',
  ),
  spec(
    'workers',
    'kvFailure',
    '<policy>',
    oneOf(['recompute', 'fail']),
    'recompute',
    'when KV cannot be handed over: recompute the prompt on the decode worker, or fail the request',
  ),
  spec(
    'lone worker',
    'taints',
    '<list>',
    taintList,
    null,
    'what requests can ask for or prefer (nvext.routing_constraints), for example gpu=h100,fast',
  ),
  spec(
    'lone worker',
    'topology',
    '<list>',
    pairList,
    null,
    "where the worker is, for example zone=eu-1,rack=7; the router's topology options keep decode near prefill",
  ),
  spec(
    'lone worker',
    'adminPort',
    '<port>',
    count(0, 65_535),
    null,
    'port for health, metrics and commands of an administrator (default: none; 0 takes a free one)',
  ),
  {
    ...spec(
      'lone worker',
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
      'security',
      'wireSecret',
      '<text>',
      text,
      null,
      'shared secret of the fleet: frontends and workers that do not know it are turned away (better in BATON_WIRE_SECRET than as a flag, which others on the machine can see)',
    ),
    isSecret: true,
  },
  spec(
    'security',
    'tlsCert',
    '<path>',
    text,
    null,
    "PEM certificate of this process for TLS between the fleet's processes; with --tls-key and --tls-ca",
  ),
  spec('security', 'tlsKey', '<path>', text, null, 'PEM private key of --tls-cert'),
  spec(
    'security',
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
    oneOf(ROUTER_MODES),
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
    'computing is this much faster; 0 gives every token at once',
  ),
  spec(
    'simulated engine',
    'simBlockSize',
    '<tokens>',
    count(1, 65_536),
    null,
    'tokens per KV block (default: 16; with --sim-args what they say)',
  ),
  spec(
    'simulated engine',
    'simBlocks',
    '<n>',
    count(1, 16_777_216),
    null,
    'KV blocks per worker (default: 16384)',
  ),
  spec(
    'simulated engine',
    'simBatchedTokens',
    '<tokens>',
    count(1, 16_777_216),
    null,
    'tokens that a step computes, prompts and outputs together (default: 8192)',
  ),
  spec(
    'simulated engine',
    'simArgs',
    '<args>',
    textOrObject,
    null,
    "arguments in the names of NVIDIA's mock engine: inline JSON, or a file of JSON or YAML; a flag goes before them (docs/engines.md lists them)",
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
    'lone worker',
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
    oneOf(['silent', 'error', 'warn', 'info', 'debug']),
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
