import { describe, expect, it } from 'vitest'
import { metricSamples, metricValue, parsePrometheus } from './prometheus-text.ts'

const TEXT = `# HELP a b
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 3.0
vllm:cache_config_info{block_size="16",name="a \\"b\\", c"} 1.0
sglang_num_queue_reqs 7
plain 1e3
broken{
nothing x
inf +Inf
`

describe('parsePrometheus', () => {
  it('labels, numbers, lines that are no samples', () => {
    const samples = parsePrometheus(TEXT)
    expect(samples.map(({ name, value }) => [name, value])).toEqual([
      ['vllm:num_requests_running', 2],
      ['vllm:num_requests_running', 3],
      ['vllm:cache_config_info', 1],
      ['sglang_num_queue_reqs', 7],
      ['plain', 1000],
      ['inf', Infinity],
    ])
    expect(samples[2]?.labels).toEqual({ block_size: '16', name: 'a \\"b\\", c' })
  })

  it('only the requested metrics', () => {
    expect(parsePrometheus(TEXT, ['plain', 'sglang']).length).toBe(2)
  })
})

describe('metricValue', () => {
  const samples = parsePrometheus(TEXT)

  it('the sum over labels; the first existing name of several; `_` instead of `:`', () => {
    expect(metricValue(samples, ['vllm:num_requests_running'])).toBe(5)
    expect(metricValue(samples, ['gone', 'plain'])).toBe(1000)
    expect(metricValue(samples, ['sglang:num_queue_reqs'])).toBe(7)
    expect(metricValue(samples, ['gone'])).toBeNull()
    expect(metricSamples(samples, ['gone'])).toEqual([])
  })
})
