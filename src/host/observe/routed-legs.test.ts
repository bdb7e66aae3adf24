import { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { RoutedLegs } from './routed-legs.ts'

const leg = (worker_id: string, phase = 'decode') => ({ model: 'm', phase, worker_id })

async function seriesOf(registry: Registry): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n')
  return lines.filter((line) => line.startsWith('baton_frontend_routed_legs_total{'))
}

describe('RoutedLegs', () => {
  it('a worker that has left - is listed once more, then dropped; the others stay', async () => {
    const registry = new Registry()
    const legs = new RoutedLegs(registry)
    for (const one of [leg('1'), leg('1', 'prefill'), leg('2'), leg('2')]) legs.count(one)
    legs.keep(new Set(['2']))
    expect(await seriesOf(registry)).toHaveLength(3)
    legs.keep(new Set(['2']))
    expect(await seriesOf(registry)).toEqual([
      'baton_frontend_routed_legs_total{model="m",phase="decode",worker_id="2"} 2',
    ])
  })

  it('a worker that is back at the next scrape - keeps its count', async () => {
    const registry = new Registry()
    const legs = new RoutedLegs(registry)
    legs.count(leg('1'))
    for (const there of [[], ['1'], [], ['1']]) legs.keep(new Set(there))
    legs.count(leg('1'))
    expect(await seriesOf(registry)).toEqual([
      'baton_frontend_routed_legs_total{model="m",phase="decode",worker_id="1"} 2',
    ])
  })

  it('ten thousand workers that came and went - leave nothing', async () => {
    const registry = new Registry()
    const legs = new RoutedLegs(registry)
    for (let worker = 0; worker < 10_000; worker++) legs.count(leg(String(worker)))
    for (let look = 0; look < 2; look++) legs.keep(new Set())
    expect(await seriesOf(registry)).toEqual([])
  })
})
