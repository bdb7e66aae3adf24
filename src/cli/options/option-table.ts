/**
 * All options of `baton` that are not in a table of their own: flag, environment variable, key of the config
 * file, type, default and help.
 *
 * Flags, `BATON_…` variables, `baton.yaml`, `--help`, `baton config` and docs/configuration.md are all made
 * from these tables.
 */
import {
  isReasoningParser,
  isToolCallParser,
  REASONING_PARSER_NAMES,
  TOOL_CALL_PARSER_NAMES,
} from '../../text/index.ts'
import { LLAMACPP_OPTIONS, SIM_OPTIONS } from './engine-options.ts'
import { FLEET_OPTIONS } from './fleet-options.ts'
import { HTTP_OPTIONS } from './http-options.ts'
import { spec } from './option-spec.ts'
import type { OptionSpec } from './option-spec.ts'
import {
  amount,
  count,
  flag,
  nameKnownTo,
  nameOrModule,
  oneOf,
  text,
  textOrObject,
} from './option-values.ts'
import { ROUTER_OPTIONS } from './router-options.ts'
import { TRACE_OPTIONS } from './trace-options.ts'
import { ENGINE_NAMES, UPSTREAM_OPTIONS } from './upstream-options.ts'
import { WORKER_OPTIONS } from './worker-options.ts'

const TABLE = [
  spec(
    'model',
    'model',
    '<path>',
    text,
    null,
    'model: a GGUF file; with --engine sim also a Hugging Face folder (default: the model that ships with Baton)',
  ),
  spec(
    'served model',
    'servedModelName',
    '<name>',
    text,
    null,
    "model name that clients use (default: the model's own)",
  ),
  spec(
    'served model',
    'contextLength',
    '<tokens>',
    count(16, 16_777_216),
    null,
    "most tokens of a request, prompt and output together (default: the model's context length)",
  ),
  spec(
    'served model',
    'reasoningParser',
    '<name>',
    nameKnownTo(isReasoningParser, ['none', ...REASONING_PARSER_NAMES]),
    null,
    'parser that separates thinking from the answer (default: detected from the chat template and the vocabulary; none turns it off)',
  ),
  spec(
    'served model',
    'toolCallParser',
    '<name>',
    nameKnownTo(isToolCallParser, ['none', ...TOOL_CALL_PARSER_NAMES]),
    null,
    'parser of tool calls (default: detected from the chat template and the vocabulary; none turns it off)',
  ),
  spec(
    'workers',
    'startTimeoutSeconds',
    '<s>',
    amount(1, 86_400),
    1800,
    'how long an engine may take to start; after that its worker exits',
  ),
  spec(
    'workers',
    'stallTimeoutSeconds',
    '<s>',
    amount(1, 86_400),
    null,
    'how long an engine with requests may show no sign of life; after that its requests end with an error and its worker exits (default: 120; no limit for servers of others)',
  ),
  spec(
    'workers',
    'enginePace',
    '<file>',
    textOrObject,
    null,
    'measured speed of the engine: a file of `baton profile`, or {"promptMs": …, "promptTokenMs": …, "stepMs": …, "stepRequestMs": …, "stepContextTokenMs": …}; routers with `cost: time` start with it instead of an estimate',
  ),
  spec(
    'engine',
    'engine',
    '<name>',
    nameOrModule(ENGINE_NAMES),
    'llamacpp',
    'engine: llamacpp, sim, or your own module, ./mine.js (docs/engines.md); `baton worker` can also use the server at --engine-url: vllm, sglang, llama-server, openai, or upstream (detected)',
  ),
  spec(
    'custom engine',
    'engineArgs',
    '<json>',
    textOrObject,
    null,
    'JSON object that is passed to the module of --engine, for example {"device":"cuda:0"}',
  ),
  spec(
    'engine',
    'sequences',
    '<n>',
    count(1, 1024),
    8,
    'most requests that one worker computes at the same time',
  ),
  ...LLAMACPP_OPTIONS,
  ...UPSTREAM_OPTIONS,
  spec(
    'topology',
    'prefill',
    '<n>',
    count(0, 1024),
    null,
    'number of prefill workers (default: 1, with --aggregated 0)',
  ),
  spec(
    'topology',
    'decode',
    '<n>',
    count(0, 1024),
    null,
    'number of decode workers (default: 1, with --aggregated 0)',
  ),
  spec(
    'topology',
    'aggregated',
    '<n>',
    count(0, 1024),
    null,
    'number of workers that do both prefill and decode, instead of --prefill and --decode',
  ),
  spec('topology', 'inProcess', '', flag, false, 'run frontend and workers in one process'),
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
    'kvChecksums',
    '<bool>',
    flag,
    true,
    'verify the checksum of transferred KV blocks; false saves the time when the network is trusted',
  ),
  spec(
    'workers',
    'wireChecksums',
    '<bool>',
    flag,
    true,
    'verify checksums of requests and tokens between frontend and workers (TLS has its own); false saves CPU when nothing between them can damage data',
  ),
  spec(
    'workers',
    'kvFailure',
    '<policy>',
    oneOf(['recompute', 'fail']),
    'recompute',
    'what to do when a KV transfer fails: recompute the prompt on the decode worker, or fail the request',
  ),
  ...WORKER_OPTIONS,
  spec(
    'served model',
    'modelVersion',
    '<text>',
    text,
    null,
    'label of the model version under its name (default: derived from the numbers in its files); prefill and decode of a request use the same version',
  ),
  ...FLEET_OPTIONS,
  ...HTTP_OPTIONS,
  ...ROUTER_OPTIONS,
  ...SIM_OPTIONS,
  ...TRACE_OPTIONS,
  spec(
    'operation',
    'drainSeconds',
    '<s>',
    amount(0, 86_400),
    10,
    'how long running requests may take to finish after Ctrl-C or SIGTERM; a second signal, at least half a second later, ends at once',
  ),
  spec(
    'operation',
    'logLevel',
    '<level>',
    oneOf(['silent', 'error', 'warn', 'info', 'debug']),
    'warn',
    'log level: silent, error, warn, info or debug',
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
