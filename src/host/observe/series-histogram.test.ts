import { Histogram, Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { SeriesHistogram } from './series-histogram.ts'

const settings = { name: 'a_seconds', help: 'What.', labelNames: ['model'], buckets: [0.1, 1, 10] }

describe('SeriesHistogram', () => {
  it("values at, below and above the bounds - the text is the same as the library's", async () => {
    const [ours, theirs] = [new Registry(), new Registry()]
    const histogram = new SeriesHistogram({ ...settings, registers: [ours] })
    const library = new Histogram({ ...settings, registers: [theirs] })
    for (const model of ['m', 'x "y"\\']) {
      const series = histogram.series({ model })
      for (const value of [0, 0.1, 0.11, 1, 9.99, 10, 10.01, 1e9, -1]) {
        series.observe(value)
        library.observe({ model }, value)
      }
    }
    expect(await ours.metrics()).toBe(await theirs.metrics())
  })

  it('a series without a value - is left out', async () => {
    const registry = new Registry()
    new SeriesHistogram({ ...settings, registers: [registry] }).series({ model: 'm' })
    expect(await registry.metrics()).toBe('# HELP a_seconds What.\n# TYPE a_seconds histogram\n')
  })
})
