import { expect, it, vi } from 'vitest'

it('examples/scorer.ts - the scorer appears in the cost and the filter in the exclusions', async () => {
  const lines: string[] = []
  const log = vi.spyOn(console, 'log').mockImplementation((line: unknown) => {
    lines.push(typeof line === 'string' ? line : JSON.stringify(line))
  })
  await import('../examples/scorer.ts')
  log.mockRestore()
  expect(lines.slice(0, 3)).toEqual([
    expect.stringMatching(/^worker 2: cost \d+ blocks, of which 0 for power$/),
    expect.stringMatching(/^worker 1: cost \d+ blocks, of which 25 for power$/),
    'worker 3: filtered: under repair',
  ])
  expect(JSON.parse(lines[3] ?? '')).toMatchObject({ kind: 'routed', workerId: '2' })
})
