import { describe, expect, it } from 'vitest'
import { mergeMetrics } from './merged-metrics.ts'

describe('mergeMetrics - metrics of several processes', () => {
  it('each family once, each sample with its process; the values are unchanged', () => {
    const text = (value: string) =>
      `# HELP a_total What.\n# TYPE a_total counter\na_total{model="x}y"} ${value}\n\n# HELP b B.\n# TYPE b gauge\nb ${value}\n`
    const second =
      '# HELP c_seconds C.\n# TYPE c_seconds histogram\nc_seconds_bucket{le="+Inf"} 1e-9 1700\n'
    expect(
      mergeMetrics([
        { from: '1', text: text('5') },
        { from: '2', text: text('NaN') + second },
      ]),
    ).toBe(
      [
        '# HELP a_total What.',
        '# TYPE a_total counter',
        'a_total{frontend="1",model="x}y"} 5',
        'a_total{frontend="2",model="x}y"} NaN',
        '# HELP b B.',
        '# TYPE b gauge',
        'b{frontend="1"} 5',
        'b{frontend="2"} NaN',
        '# HELP c_seconds C.',
        '# TYPE c_seconds histogram',
        'c_seconds_bucket{frontend="2",le="+Inf"} 1e-9 1700',
        '',
      ].join('\n'),
    )
  })

  it('OpenMetrics - has its end mark once, and exemplars are unchanged', () => {
    const text = (value: string) =>
      `# HELP a A.\n# TYPE a histogram\na_bucket{le="1.0"} ${value} # {trace_id="ab"} 0.5 1.000\n# EOF\n`
    expect(
      mergeMetrics([
        { from: '1', text: text('5') },
        { from: '2', text: text('6') },
      ]),
    ).toBe(
      [
        '# HELP a A.',
        '# TYPE a histogram',
        'a_bucket{frontend="1",le="1.0"} 5 # {trace_id="ab"} 0.5 1.000',
        'a_bucket{frontend="2",le="1.0"} 6 # {trace_id="ab"} 0.5 1.000',
        '# EOF',
        '',
      ].join('\n'),
    )
  })

  it('no input - gives an empty text', () => {
    expect(mergeMetrics([])).toBe('')
    expect(mergeMetrics([{ from: '1', text: '' }])).toBe('')
  })
})
