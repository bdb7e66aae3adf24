import { Counter, Gauge, Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import type { FrontendEvent } from '../../frontend/index.ts'
import { engineMetricsText } from './engine-metrics-text.ts'
import { metricsFormat } from './metrics-page.ts'
import { openMetricsText } from './open-metrics-text.ts'
import { PhaseMetrics } from './phase-metrics.ts'

describe('metricsFormat', () => {
  it.each([
    [undefined, 'prometheus'],
    ['*/*', 'prometheus'],
    ['text/plain', 'prometheus'],
    ['application/openmetrics-text; version=1.0.0', 'openmetrics'],
    // Prometheus 2 and 3.
    [
      'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1',
      'openmetrics',
    ],
    ['application/openmetrics-text;q=0.5, text/plain;q=0.6', 'prometheus'],
    ['application/openmetrics-text;q=0', 'prometheus'],
    ['Application/OpenMetrics-Text;Q=0.3,text/plain;q=0.3', 'openmetrics'],
    ['application/openmetrics-text;q=x', 'prometheus'],
  ])('%s - %s', (accept, format) => {
    expect(metricsFormat(accept)).toBe(format)
  })
})

describe('openMetricsText', () => {
  it('a counter, and a gauge whose name ends like one - their samples have the names of the plain text', async () => {
    const registry = new Registry()
    const registers = [registry]
    new Counter({ name: 'a_total', help: 'A "b"\\\n', registers, labelNames: ['x'] }).inc({
      x: 'q"\\',
    })
    new Gauge({ name: 'b_total', help: 'B', registers }).set(2.5)
    const before = await registry.metrics()
    expect(await openMetricsText(registry, { w: '1' })).toBe(
      [
        '# HELP a A \\"b\\"\\\\\\n',
        '# TYPE a counter',
        'a_total{x="q\\"\\\\",w="1"} 1',
        '# HELP b_total B',
        '# TYPE b_total gauge',
        'b_total{w="1"} 2.5',
        '',
      ].join('\n'),
    )
    expect(await registry.metrics()).toBe(before)
  })

  it("an engine's counter - has the same head", () => {
    const hits = { name: 'hits_total', help: 'H', kind: 'counter', value: 1, labels: {} } as const
    expect(engineMetricsText([hits], {}, 'openmetrics')).toBe(
      '# HELP baton_engine_hits H\n# TYPE baton_engine_hits counter\nbaton_engine_hits_total 1\n',
    )
  })
})

describe('exemplars', () => {
  const facts = { requestId: 'r', model: 'm', endpoint: 'completions', streamed: true } as const
  const event: FrontendEvent = { kind: 'tokenised', tokens: 3, elapsedMs: 2, atMs: 0 } as never

  async function linesAfter(...traceparents: (string | undefined)[]): Promise<string[]> {
    const registry = new Registry()
    const metrics = new PhaseMetrics(registry, () => 1_700_000_000_123)
    for (const traceparent of traceparents) metrics.observe(event, { ...facts, traceparent })
    expect(await registry.metrics()).not.toContain('trace_id')
    return (await openMetricsText(registry)).split('\n').filter((line) => line.includes(' # '))
  }
  const trace = (digit: string, flags: string): string =>
    `00-${digit.repeat(32)}-${'b'.repeat(16)}-${flags}`

  it('a traced request - is the exemplar of its bucket, the last one only', async () => {
    const lines = await linesAfter(trace('a', '01'), trace('c', '01'))
    expect(lines).toEqual([
      expect.stringMatching(
        /^baton_frontend_tokenize_seconds_bucket\{le="0\.0\d+",model="m"\} 2 # \{trace_id="c{32}"\} 0\.002 1700000000\.123$/,
      ),
    ])
  })

  it('a request that is not sampled, or has no trace - is no exemplar', async () => {
    expect(await linesAfter(trace('a', '00'), undefined)).toEqual([])
  })
})
