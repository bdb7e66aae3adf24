/**
 * Generates the Grafana dashboard of deploy/monitoring: `npx tsx scripts/write-dashboard.ts`. Each panel is one line
 * below.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Panel {
  readonly title: string
  readonly unit: string
  readonly queries: readonly (readonly [legend: string, expression: string])[]
}

const MODEL = 'model=~"$model"'

function rate(metric: string, by: string): string {
  return `sum by (${by}) (rate(baton_frontend_${metric}{${MODEL}}[$__rate_interval]))`
}

function quantiles(metric: string, by = ''): Panel['queries'] {
  const labels = by === '' ? 'le' : `${by}, le`
  const legend = by === '' ? '' : `{{${by}}} `
  return ['0.5', '0.99'].map((q) => [
    `${legend}p${Number(q) * 100}`,
    `histogram_quantile(${q}, sum by (${labels}) (rate(baton_frontend_${metric}_bucket{${MODEL}}[$__rate_interval])))`,
  ])
}

function mean(metric: string): string {
  const of = (part: string): string =>
    `sum(rate(baton_frontend_${metric}_${part}{${MODEL}}[$__rate_interval]))`
  return `${of('sum')} / ${of('count')}`
}

const ROWS: readonly (readonly [title: string, panels: readonly Panel[]])[] = [
  [
    'Users',
    [
      {
        title: 'Requests per second',
        unit: 'reqps',
        queries: [['{{model}} {{status}}', rate('requests_total', 'model, status')]],
      },
      {
        title: 'Time to first token',
        unit: 's',
        queries: quantiles('time_to_first_token_seconds'),
      },
      {
        title: 'Time between tokens',
        unit: 's',
        queries: quantiles('inter_token_latency_seconds'),
      },
      {
        title: 'Output tokens per second',
        unit: 'short',
        queries: [['{{model}}', rate('output_tokens_total', 'model')]],
      },
      {
        title: 'Refused, migrated, left',
        unit: 'reqps',
        queries: [
          ['refused', rate('model_rejection_total', 'model')],
          ['migrated', rate('model_migration_total', 'model')],
          ['left by the client', rate('model_cancellation_total', 'model')],
        ],
      },
      {
        title: 'Requests in flight',
        unit: 'short',
        queries: [['{{model}}', `sum by (model) (baton_frontend_inflight_requests{${MODEL}})`]],
      },
    ],
  ],
  [
    'Phases',
    [
      { title: 'Template and tokenizer', unit: 's', queries: quantiles('tokenize_seconds') },
      { title: "Router's queue", unit: 's', queries: quantiles('router_queue_seconds', 'phase') },
      { title: 'Choice of a worker', unit: 's', queries: quantiles('route_seconds', 'phase') },
      { title: 'Wait for the prefill', unit: 's', queries: quantiles('prefill_queue_seconds') },
      { title: 'Prefill', unit: 's', queries: quantiles('prefill_seconds') },
      { title: 'KV transfer', unit: 's', queries: quantiles('kv_transfer_seconds') },
      {
        title: 'KV bytes per second',
        unit: 'Bps',
        queries: [['bytes', rate('kv_transfer_bytes_sum', 'model')]],
      },
      { title: 'Wait for the decode', unit: 's', queries: quantiles('decode_queue_seconds') },
    ],
  ],
  [
    'Cache and fleet',
    [
      {
        title: 'Share of the prompt from cache',
        unit: 'percentunit',
        queries: [
          ['expected by the router', mean('kv_hit_rate_predicted')],
          ['reported by engines', mean('kv_hit_rate')],
        ],
      },
      {
        title: 'Waiting requests',
        unit: 'short',
        queries: [
          [
            '{{worker_type}}',
            `sum by (worker_type) (baton_frontend_router_queue_pending_requests{${MODEL}})`,
          ],
        ],
      },
      {
        title: 'Running requests by worker',
        unit: 'short',
        queries: [
          [
            '{{worker_type}} {{worker_id}}',
            `sum by (worker_type, worker_id) (baton_frontend_worker_active_requests{${MODEL}})`,
          ],
        ],
      },
      {
        title: 'KV blocks in use',
        unit: 'percentunit',
        queries: [
          [
            '{{worker_type}} {{worker_id}}',
            `sum by (worker_type, worker_id) (baton_frontend_worker_kv_blocks_used{${MODEL}}) / sum by (worker_type, worker_id) (baton_frontend_worker_kv_blocks{${MODEL}})`,
          ],
        ],
      },
      {
        title: 'Prompts computed again',
        unit: 'short',
        queries: [
          ['{{code}}', 'sum by (code) (rate(baton_worker_kv_recomputed_total[$__rate_interval]))'],
        ],
      },
      {
        title: 'Frontend: processor and event loop',
        unit: 'short',
        queries: [
          [
            'cores {{instance}}',
            'rate(baton_frontend_process_cpu_seconds_total[$__rate_interval])',
          ],
          ['event loop p99 in s {{instance}}', 'baton_frontend_event_loop_delay_p99_seconds'],
        ],
      },
    ],
  ],
]

const WIDTH = 8
const HEIGHT = 8
const PER_ROW = 3

function dashboard(): object {
  const panels: object[] = []
  let y = 0
  for (const [title, inRow] of ROWS) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: 24, h: 1 },
    })
    y += 1
    inRow.forEach((panel, i) => {
      const gridPos = {
        x: (i % PER_ROW) * WIDTH,
        y: y + Math.floor(i / PER_ROW) * HEIGHT,
        w: WIDTH,
        h: HEIGHT,
      }
      panels.push(panelJson(panel, panels.length + 1, gridPos))
    })
    y += Math.ceil(inRow.length / PER_ROW) * HEIGHT
  }
  return {
    uid: 'baton',
    title: 'Baton',
    tags: ['baton', 'llm'],
    timezone: 'browser',
    schemaVersion: 39,
    refresh: '15s',
    time: { from: 'now-1h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' },
        {
          name: 'model',
          type: 'query',
          label: 'Model',
          datasource: { type: 'prometheus', uid: '${datasource}' },
          query: 'label_values(baton_frontend_requests_started_total, model)',
          includeAll: true,
          multi: true,
          allValue: '.*',
          refresh: 2,
        },
      ],
    },
    panels,
  }
}

function panelJson({ title, unit, queries }: Panel, id: number, gridPos: object): object {
  const datasource = { type: 'prometheus', uid: '${datasource}' }
  return {
    id,
    type: 'timeseries',
    title,
    datasource,
    gridPos,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets: queries.map(([legendFormat, expr], i) => ({
      refId: String.fromCharCode(65 + i),
      datasource,
      expr,
      legendFormat,
    })),
  }
}

const path = fileURLToPath(new URL('../deploy/monitoring/grafana-dashboard.json', import.meta.url))
writeFileSync(path, `${JSON.stringify(dashboard(), null, 2)}\n`)
