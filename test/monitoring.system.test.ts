import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { ERROR_CODES } from '../src/base/index.ts'
import { freePort } from './free-port.ts'
import { startBaton } from './running-server.ts'
import { until } from './until.ts'

const MONITORING = new URL('../deploy/monitoring/', import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, MONITORING), 'utf8')
const has = (program: string): boolean => spawnSync(program, ['--version']).status === 0

interface Dashboard {
  readonly panels: readonly {
    readonly title: string
    readonly targets?: { readonly expr: string }[]
  }[]
}
interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly expr: string }[]
  }[]
}

const panelQueries = (JSON.parse(read('grafana-dashboard.json')) as Dashboard).panels.flatMap(
  ({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const),
)
const ruleQueries = (parse(read('alerts.yaml')) as Rules).groups.flatMap(({ rules }) =>
  rules.map(({ alert, expr }) => [alert, expr] as const),
)
const QUERIES = [...panelQueries, ...ruleQueries]

/** Values that Grafana fills in. */
const filled = (expression: string): string =>
  expression.replaceAll('$__rate_interval', '1m').replaceAll('$model', '.*')

const DOCUMENTED = new Set(
  readFileSync(new URL('../docs/metrics.md', import.meta.url), 'utf8').match(/baton_\w+/g),
)
/** Metrics of every Node process, with the prefix of the frontend and of the worker. */
const isOfProcess = (name: string): boolean =>
  DOCUMENTED.has(name.replace('baton_frontend_', 'baton_worker_')) &&
  /_(process|nodejs)_/.test(name)

describe('dashboard and alerts', () => {
  it('queries of dashboard and alerts - are found', () => {
    expect([panelQueries.length > 15, ruleQueries.length > 5]).toEqual([true, true])
  })

  it.each(QUERIES)('%s - uses only documented metrics', (_, expression) => {
    const names = expression.match(/baton_\w+/g) ?? []
    const unknown = names.filter(
      (name) => !DOCUMENTED.has(name.replace(/_(bucket|sum|count)$/, '')) && !isOfProcess(name),
    )
    expect(unknown).toEqual([])
  })

  it('the alert of failing requests - counts all errors of the server, not those of clients and of overload', () => {
    const [, expression = ''] = ruleQueries.find(([alert]) => alert === 'BatonRequestsFail') ?? []
    const pattern = (operator: string): RegExp =>
      new RegExp(`^(?:${expression.match(`error_type${operator}"([^"]+)"`)?.[1]})$`)
    const [wanted, unwanted] = [pattern('=~'), pattern('!~')]
    for (const [code, { httpStatus }] of Object.entries(ERROR_CODES)) {
      const isCounted = wanted.test(code) && !unwanted.test(code)
      // Another alert reports refusals because of load.
      const isFailure = httpStatus >= 500 && httpStatus !== 501 && !code.startsWith('capacity.')
      expect([code, isCounted]).toEqual([code, isFailure])
    }
    // A metric that is counted under other labels would never fire it.
    const labels = [...expression.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label]) => label)
    expect(new Set(labels)).toEqual(new Set(['error_type']))
  })

  it.skipIf(!has('promtool'))('promtool - accepts rules and configuration', () => {
    for (const [what, file] of [
      ['rules', 'alerts.yaml'],
      ['config', 'prometheus.yaml'],
    ] as const) {
      const path = new URL(file, MONITORING).pathname
      const { status, stdout, stderr } = spawnSync('promtool', ['check', what, path], {
        encoding: 'utf8',
      })
      expect([file, status, status === 0 ? '' : stdout + stderr]).toEqual([file, 0, ''])
    }
  })
})

/** From Debian's package `prometheus`; the test is skipped where it is not installed. */
describe.skipIf(!has('prometheus'))('a real Prometheus', () => {
  it('scraping - reads a frontend and a worker as OpenMetrics with exemplars, and every dashboard and alert query has an answer', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-prometheus-'))
    const discovery = ['--discovery', `file:${folder}/fleet`]
    const [port, workerPort, frontendPort] = [await freePort(), await freePort(), await freePort()]
    const engine = ['--engine', 'sim', '--grace-seconds', '0', '--admin-port', `${workerPort}`]
    const worker = await startBaton(['worker', ...discovery, ...engine], /"ready"/)
    const frontend = await startBaton(
      ['frontend', ...discovery, '--port', `${frontendPort}`],
      /http:/,
    )
    const url = `http://127.0.0.1:${frontendPort}`
    const config = join(folder, 'prometheus.yaml')
    writeFileSync(
      config,
      `global: { scrape_interval: 1s }
scrape_configs:
  - { job_name: baton-frontend, static_configs: [{ targets: ['127.0.0.1:${frontendPort}'] }] }
  - { job_name: baton-worker, static_configs: [{ targets: ['127.0.0.1:${workerPort}'] }] }
`,
    )
    const address = `127.0.0.1:${port}`
    const args = [
      `--config.file=${config}`,
      `--storage.tsdb.path=${folder}/data`,
      `--web.listen-address=${address}`,
      '--enable-feature=exemplar-storage',
    ]
    const prometheus = spawn('prometheus', args, { stdio: 'ignore' })
    const ask = async (
      query: string,
    ): Promise<{ status: string; data?: { result: { value: [number, string] }[] } }> => {
      const url = `http://${address}/api/v1/query?query=${encodeURIComponent(query)}`
      return (await (await fetch(url)).json()) as Awaited<ReturnType<typeof ask>>
    }
    const valueOf = async (query: string): Promise<string | undefined> =>
      (await ask(query).catch(() => null))?.data?.result[0]?.value[1]
    try {
      const body = JSON.stringify({ model: 'storyteller', prompt: 'hi', max_tokens: 3 })
      const traceId = 'a1'.repeat(16)
      const headers = {
        'content-type': 'application/json',
        traceparent: `00-${traceId}-${'b2'.repeat(8)}-01`,
      }
      await until('a worker is found', async () => (await fetch(`${url}/ready`)).ok)
      await fetch(`${url}/v1/completions`, { method: 'POST', headers, body })
      const counts = ['baton_frontend_requests_total', 'baton_worker_request_seconds_count']
      for (const count of counts)
        await until(`${count} in a scrape`, async () => (await valueOf(count)) === '1')
      for (const job of ['baton-frontend', 'baton-worker'])
        expect([job, await valueOf(`up{job="${job}"}`)]).toEqual([job, '1'])
      const buckets = [
        'baton_frontend_request_duration_seconds_bucket',
        'baton_worker_request_seconds_bucket',
      ]
      for (const bucket of buckets) {
        const query = `query=${bucket}&start=0&end=${Date.now()}`
        const exemplars = await fetch(`http://${address}/api/v1/query_exemplars?${query}`)
        expect(await exemplars.json()).toMatchObject({
          data: [{ exemplars: [{ labels: { trace_id: traceId } }] }],
        })
      }
      for (const [title, expression] of QUERIES) {
        expect([title, (await ask(filled(expression))).status]).toEqual([title, 'success'])
      }
    } finally {
      prometheus.kill('SIGKILL')
      for (const { process, ended } of [frontend, worker]) {
        process.kill('SIGTERM')
        await ended
      }
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
