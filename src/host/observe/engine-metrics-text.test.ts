import { describe, expect, it } from 'vitest'
import type { EngineMetric } from '../../engine/index.ts'
import { engineMetricsText } from './engine-metrics-text.ts'
import { WorkerMetrics } from './worker-metrics.ts'

const hits: EngineMetric = { name: 'hits_total', help: 'Cache hits', kind: 'counter', value: 3 }
const idle = { live: true, ready: true, state: 'running', inFlight: 0, openOffers: 0 } as const

describe('engineMetricsText', () => {
  it('metric families - each has its help and type once, and the labels of the worker', () => {
    const text = engineMetricsText(
      [
        { name: 'blocks', help: 'Blocks', kind: 'gauge', value: 1.5, labels: { tier: 'device' } },
        hits,
        { name: 'blocks', help: 'Blocks', kind: 'gauge', value: 2, labels: { tier: 'host' } },
      ],
      { mode: 'agg' },
    )
    expect(text).toBe(
      [
        '# HELP baton_engine_blocks Blocks',
        '# TYPE baton_engine_blocks gauge',
        'baton_engine_blocks{tier="device",mode="agg"} 1.5',
        'baton_engine_blocks{tier="host",mode="agg"} 2',
        '# HELP baton_engine_hits_total Cache hits',
        '# TYPE baton_engine_hits_total counter',
        'baton_engine_hits_total{mode="agg"} 3',
        '',
      ].join('\n'),
    )
  })

  it.each([9_999, 10_000])('%i metrics - are written', (count) => {
    const metrics = Array.from({ length: count }, (_, i) => ({ ...hits, labels: { i: String(i) } }))
    expect(engineMetricsText(metrics).split('\n')).toHaveLength(count + 3)
  })

  it.each<[string, unknown]>([
    ['10,001 metrics', Array<EngineMetric>(10_001).fill(hits)],
    ['a list of 4 billion holes', Object.assign([], { length: 2 ** 32 - 1 })],
    ['no list', 7],
  ])('%s - are refused before they are read', (_name, metrics) => {
    expect(() => engineMetricsText(metrics as EngineMetric[])).toThrow(/at most 10000/)
  })

  it('special texts and numbers - are written as the format requires', () => {
    const labels = { path: 'a"b\\c\nd' }
    const text = engineMetricsText([{ ...hits, help: 'two\nlines', value: Infinity, labels }])
    expect(text.split('\n')).toEqual([
      '# HELP baton_engine_hits_total two\\nlines',
      '# TYPE baton_engine_hits_total counter',
      'baton_engine_hits_total{path="a\\"b\\\\c\\nd"} +Inf',
      '',
    ])
  })

  it.each([
    ['a name with a blank', { name: 'a b' }],
    ['a name with a line', { name: 'a 1\nbaton_worker_ready' }],
    ['a label that is none', { labels: { 'a-b': 'x' } }],
    ['a counter without _total', { name: 'odd' }],
    ['a counter below zero', { value: -1 }],
    ['an unknown kind', { kind: 'histogram' }],
    ['a value that is no number', { value: '1\nx 2' }],
  ])('%s - is left out, the other metrics stay', (_what, change) => {
    const odd = { ...hits, name: 'odd_total', ...change } as EngineMetric
    expect(engineMetricsText([odd, hits])).toBe(engineMetricsText([hits]))
  })

  it('a sample reported twice - the last one counts', () => {
    expect(engineMetricsText([hits, { ...hits, value: 4 }])).toMatch(/hits_total 4\n$/)
  })

  it('a sample reported twice with its labels in another order - is one sample', () => {
    const text = engineMetricsText(
      [
        { ...hits, labels: { tier: 'host', mode: 'own', rank: '0' } },
        { ...hits, value: 4, labels: { rank: '0', mode: 'own', tier: 'host' } },
      ],
      { mode: 'agg' },
    )
    expect(text.split('\n').slice(2)).toEqual([
      'baton_engine_hits_total{mode="agg",rank="0",tier="host"} 4',
      '',
    ])
  })
})

describe('WorkerMetrics - metrics of the engine', () => {
  it('are read at each scrape and added to those of the worker', async () => {
    let value = 0
    const metrics = new WorkerMetrics(
      () => idle,
      { mode: 'agg' },
      () => [{ ...hits, value: ++value }],
    )
    await metrics.text()
    const text = await metrics.text()
    expect(text).toContain('baton_engine_hits_total{mode="agg"} 2\n')
    expect(text).toMatch(/^baton_worker_ready\{mode="agg"\} 1$/m)
  })

  it('an engine that throws - is counted as a fault, and the other metrics are there', async () => {
    const metrics = new WorkerMetrics(
      () => idle,
      {},
      () => {
        throw new Error('no numbers today')
      },
    )
    const text = await metrics.text()
    expect(text).toMatch(/^baton_worker_ready 1$/m)
    expect(text).toMatch(/^baton_worker_engine_faults_total\{kind="metrics"\} 1$/m)
  })
})
