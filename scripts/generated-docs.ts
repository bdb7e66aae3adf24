/**
 * The pages of docs/ that are generated from the code. `npx tsx scripts/write-docs.ts` writes them; a test compares them.
 */
import { GROUPS_OF, headingOf, shownValue } from '../src/cli/options/option-spec.ts'
import { OPTION_TABLE, flagOf, variableOf } from '../src/cli/options/option-table.ts'
import { FrontendMetrics, WorkerMetrics } from '../src/host/index.ts'
import {
  completeRouterConfig,
  COST_MODELS,
  expectedOf,
  listRouterOptions,
  ROUTER_OPTION_TABLE,
  TERMS_OF,
} from '../src/router/index.ts'
import type { BuiltInTerm } from '../src/router/index.ts'

export function configurationPage(): string {
  const groups = [...new Set(OPTION_TABLE.map(({ group }) => group))]
  return [
    '# Configuration',
    '',
    'Every option can be set as a command-line flag, as an environment variable, or as a key of the configuration file. A flag takes',
    'precedence over the variable, the variable over the file, and the file over the default.',
    '',
    '- The configuration file is `baton.yaml` in the working folder, or the file named by `--config` (or `BATON_CONFIG`). It has one',
    '  `option: value` per line. A key without a value counts as not set.',
    '- An unknown key, an unknown `BATON_…` variable or an invalid value is a one-line error with exit code 2.',
    '- `baton config` prints the effective configuration and where each value came from (`--json` for programs).',
    '- `BATON_URL` is the server that `baton chat` and `baton explain` use.',
    '- Workers started by `baton serve` read no variables and no file of their own. They get the effective configuration from it.',
    '- Sizes are written as `512MiB`, `2GB` or plain bytes.',
    '',
    '```yaml',
    '# baton.yaml',
    'model: models/my-model.gguf',
    'prefill: 2',
    'decode: 2',
    'kvStoreBytes: 2GiB',
    '```',
    ...groups.flatMap((group) => [
      '',
      `## ${headingOf(group)}`,
      '',
      `Used by ${commandsOf(group)}.`,
      '',
      '| flag | variable | key | default | meaning |',
      '|---|---|---|---|---|',
      ...optionRows(group),
    ]),
    '',
    '## Router file',
    '',
    '`--router-config` names a YAML or JSON file with more router options ([example](../examples/router.yaml)). A flag, a variable or',
    "a key of the configuration file takes precedence over it. The names of Dynamo's `KvRouterConfig` (`overlap_score_credit`,",
    '`router_temperature` …) also work. An unknown name or an invalid value is a one-line error with the file and the path, for example',
    '`policyClasses[1].quantum`.',
    '',
    '| option | allowed values | default | meaning |',
    '|---|---|---|---|',
    ...routerRows(),
    '',
    '## Cost terms',
    '',
    'In mode `kv` the router adds these terms for each worker, in this order, and chooses the lowest sum',
    '([routing](routing.md#one-decision)). A term with the role `credit` is subtracted from the prefill work; one with the role `factor`',
    'multiplies the sum. Custom terms (`--scorer`) come after these.',
    ...COST_MODELS.flatMap((model) => [
      '',
      `With \`cost: ${model}\`:`,
      '',
      '| term | unit | role | weight | value |',
      '|---|---|---|---|---|',
      ...TERMS_OF[model].map(termRow),
    ]),
    '',
    '## Conflicting options',
    '',
    '- `--aggregated n` and `--prefill`/`--decode` exclude each other.',
    '- Prefill workers need a decode worker. A decode worker computes prompts itself when no prefill worker is registered, so',
    '  `--prefill 0 --decode 2` works.',
    '- Options without effect are refused: `--gpu-layers` without `--gpu`, `--discovery` with `--in-process`, `--enforce-disagg` in a fleet',
    '  without prefill workers, `--scorer` and `--picker` in a mode without costs, and flags of an engine that was not chosen. (Variables',
    '  and keys of another engine are allowed, because they may be used by other runs.)',
    '',
  ].join('\n')
}

function termRow({ name, unit, role, weight, help }: BuiltInTerm): string {
  const weighed = typeof weight === 'number' ? weight : `\`${weight.option}\``
  return `| \`${name}\` | ${unit} | ${role} | ${weighed} | ${help} |`
}

function routerRows(): string[] {
  const defaults = new Map(
    listRouterOptions(completeRouterConfig()).map(({ path, value }) => [
      path.replace('[0]', '[]'),
      value,
    ]),
  )
  return ROUTER_OPTION_TABLE.map((row) => {
    const fallback = defaults.get(row.path)
    const shown = fallback === undefined ? '' : `\`${String(fallback)}\``
    return `| \`${row.path}\` | ${expectedOf(row)} | ${shown} | ${row.help} |`
  })
}

/** The keys of `GROUPS_OF` that stand for several commands. */
const COMMANDS_OF_GROUP: Readonly<Record<string, readonly string[]>> = {
  looking: ['top', 'doctor'],
  laboratory: ['replay', 'compare', 'plan'],
}

function commandsOf(group: string): string {
  const commands = Object.entries(GROUPS_OF).filter(([, groups]) =>
    (groups as readonly string[]).includes(group),
  )
  return commands
    .flatMap(([command]) => COMMANDS_OF_GROUP[command] ?? [command])
    .map((command) => `\`baton ${command}\``)
    .join(', ')
}

function optionRows(group: string): string[] {
  return OPTION_TABLE.filter((option) => option.group === group).map((option) => {
    const standard = shownValue(option, option.default)
    const fallback = standard === null ? '' : `\`${standard}\``
    return `| \`${flagOf(option)}${option.value === '' ? '' : ` ${option.value}`}\` | \`${variableOf(option)}\` | \`${option.key}\` | ${fallback} | ${option.help} |`
  })
}

export function metricsPage(): string {
  const metrics = new FrontendMetrics({ routers: () => [] })
  const all = metrics.describe()
  metrics.close()
  const own = all.filter(({ name }) => !/_(nodejs|process)_/.test(name))
  return [
    '# Metrics',
    '',
    '`GET /metrics` of a frontend returns Prometheus text, or OpenMetrics if the client requests it (`Accept: application/openmetrics-text`,',
    'as Prometheus does). The metric names are the same in both and do not change within a major version. Metrics are updated once per',
    'request, never per token. The usual process and Node.js metrics have the prefix `baton_frontend_`. The series of a worker that has',
    'left, and of a model that is no longer served, are dropped at the second scrape afterwards.',
    '',
    'In OpenMetrics, the histogram buckets of requests (also those of workers) have exemplars: the trace id of the last request in that',
    'bucket whose trace is recorded, by [traces](tracing.md) or by the client (`traceparent` with the sampled flag). Prometheus stores them',
    'with `--enable-feature=exemplar-storage`. Grafana can then open the trace of a slow bucket.',
    '',
    '## Frontend',
    '',
    '| name | type | labels | meaning |',
    '|---|---|---|---|',
    ...own.map(metricRow),
    '',
    '`error_type` is a code of [errors.md](errors.md), empty for a success. Several frontends behind one port answer together; each line then',
    'has the label `frontend`.',
    '',
    '## Worker',
    '',
    "`GET /metrics` of the worker's admin port ([lifecycles](lifecycles.md#drain-and-resume-by-an-administrator)). Every line also has the",
    'labels `worker_id` and `mode`.',
    '',
    '| name | type | labels | meaning |',
    '|---|---|---|---|',
    ...workerMetrics().map(metricRow),
    '',
    'Metrics of the engine (`metrics()` in [engines.md](engines.md)) have the names `baton_engine_<name>`.',
    '',
    'Tests: `test/monitoring.system.test.ts` (a real Prometheus scrapes the metrics and exemplars), `test/promtool.test.ts` and `src/host/observe/`.',
    '',
  ].join('\n')
}

type Metric = ReturnType<FrontendMetrics['describe']>[number]

function metricRow({ name, type, labelNames, help }: Metric): string {
  return `| \`${name}\` | ${type} | ${labelNames.join(', ')} | ${help} |`
}

function workerMetrics(): readonly Metric[] {
  const idle = { live: true, ready: true, state: 'running', inFlight: 0, openOffers: 0 } as const
  return new WorkerMetrics(() => idle).describe()
}
