/**
 * The pages of docs/ that are made from the code: `npx tsx scripts/write-docs.ts` writes them, a test compares them.
 */
import { GROUPS_OF } from '../src/cli/options/option-spec.ts'
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
    'Every option is a flag, an environment variable and a key of the config file, with the order',
    'flag > environment > file > default. The file is `baton.yaml` of the working folder, or what `--config` (or `BATON_CONFIG`)',
    'names: one `option: value` per line. An unknown key, an unknown `BATON_…` variable or an invalid value ends in',
    'one line and exit code 2. `baton config` prints the effective configuration and where each value came from (`--json` for programs).',
    '',
    'A key without a value is not given. `BATON_URL` is the server that `baton chat` and `baton explain` talk to. The workers of a',
    '`baton serve` read neither variables nor a file of their own: they are told the effective configuration.',
    '',
    'Sizes are written as `512MiB`, `2GB` or plain bytes.',
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
      `## ${group}`,
      '',
      `Of ${commandsOf(group)}.`,
      '',
      '| flag | variable | key | default | |',
      '|---|---|---|---|---|',
      ...optionRows(group),
    ]),
    '',
    '## Router file',
    '',
    'What the router can be told beyond its flags: a YAML or JSON file, named by `--router-config`',
    '([example](../examples/router.yaml)). A flag, a variable or a key of the config file goes before it. The names of',
    "Dynamo's `KvRouterConfig` (`overlap_score_credit`, `router_temperature` …) are understood, too. An unknown name or a value",
    'that is invalid ends in one line with the file and the path, for example `policyClasses[1].quantum`.',
    '',
    '| option | may be | default | |',
    '|---|---|---|---|',
    ...routerRows(),
    '',
    '## Cost terms',
    '',
    'What a place costs in mode `kv`, in this order; lower wins ([routing](routing.md#one-decision)). `credit` is taken off the prefill',
    'work, `factor` multiplies the sum. Terms of your own (`--scorer`) follow these.',
    ...COST_MODELS.flatMap((model) => [
      '',
      `With \`cost: ${model}\`:`,
      '',
      '| term | unit | role | weight | value |',
      '|---|---|---|---|---|',
      ...TERMS_OF[model].map(termRow),
    ]),
    '',
    '## What contradicts itself',
    '',
    '`--aggregated n` and `--prefill`/`--decode` exclude each other; prefill workers need a decode worker. A decode worker computes',
    'prompts itself when no prefill worker is registered, so `--prefill 0 --decode 2` serves.',
    '',
    'What would have no effect is refused as well: `--gpu-layers` without `--gpu`, `--discovery` with `--in-process`,',
    '`--enforce-disagg` in a fleet that has no prefill worker, `--scorer` and `--picker` in a mode without costs, and a flag (not a variable or a key, which may serve several runs) of the',
    'engine that was not chosen.',
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

function commandsOf(group: string): string {
  const commands = Object.entries(GROUPS_OF).filter(([, groups]) =>
    (groups as readonly string[]).includes(group),
  )
  return commands.map(([command]) => `\`baton ${command}\``).join(', ')
}

function optionRows(group: string): string[] {
  return OPTION_TABLE.filter((option) => option.group === group).map((option) => {
    const fallback = option.default === null ? '' : `\`${String(option.default)}\``
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
    '`GET /metrics` of the frontend, as Prometheus text, or as OpenMetrics to who asks for it (`Accept: application/openmetrics-text`, as Prometheus does). Names are the same in both and',
    'are not changed within a major version. Everything is counted once per request, nothing per token. Besides these, the usual process and Node.js metrics are there, with the prefix',
    '`baton_frontend_`.',
    '',
    'In OpenMetrics the buckets of the histograms of a request, those of workers too, have exemplars: the trace id of the last request that fell into them and whose trace is recorded, by [traces](tracing.md) or by the client',
    '(`traceparent` with its sampled flag). Prometheus keeps them with `--enable-feature=exemplar-storage`; Grafana leads from a slow bucket to its trace.',
    '',
    '| name | type | labels | meaning |',
    '|---|---|---|---|',
    ...own.map(metricRow),
    '',
    '`error_type` is the code of docs/errors.md, empty for a success. Several frontends behind one port answer as one, each line with the label `frontend`.',
    '',
    '## A worker',
    '',
    '`GET /metrics` of its admin port (docs/lifecycles.md). Every line also has the labels `worker_id` and `mode`.',
    '',
    '| name | type | labels | meaning |',
    '|---|---|---|---|',
    ...workerMetrics().map(metricRow),
    '',
    'What the engine tells of itself (`metrics()` of docs/engines.md) stands beside these, as `baton_engine_<name>`.',
    '',
    '*Held by `test/monitoring.test.ts` (a real Prometheus scrapes it, exemplars too), `test/promtool.test.ts` and `src/host/observe/`.*',
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
