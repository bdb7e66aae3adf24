/** Latency goals with real processes: header, class of the router file, refusals and metric. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'
import { until } from './until.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-goals-'))
let server: RunningServer

beforeAll(async () => {
  const config = join(folder, 'router.json')
  writeFileSync(
    config,
    JSON.stringify({
      cost: 'time',
      policyClasses: [
        { name: 'default' },
        { name: 'impatient', ttftTargetMs: 0.001 },
        { name: 'short', family: 'sized' },
        { name: 'long', family: 'sized', minUncachedTokens: 2000, itlTargetMs: 0.000_001 },
      ],
    }),
  )
  server = await startServer(['--engine', 'sim', '--aggregated', '2', '--router-config', config])
})

afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function ask(headers: Record<string, string> = {}, more: object = {}) {
  const reply = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      messages: [{ role: 'user', content: `Tell me about ${Math.random()}` }],
      max_tokens: 4,
      ...more,
    }),
  })
  return { reply, text: await reply.text() }
}

/** Value of the goals metric; 0 if it does not exist yet. */
async function count(labels: string): Promise<number> {
  const metrics = await (await fetch(`${server.url}/metrics`)).text()
  const line = new RegExp(`^baton_frontend_goals_total\\{.*${labels}.*\\} (\\d+)`, 'm')
  return Number(line.exec(metrics)?.[1] ?? 0)
}

const goal = (ms: string) => ({ 'x-baton-ttft-target-ms': ms })

describe('latency goals of a running server', () => {
  it('before anything was measured - every goal is accepted', async () => {
    expect((await ask(goal('0.001'))).reply.status).toBe(200)
  })

  it('goals that cannot be met - 503 at once with Retry-After, by header, nvext and class; feasible ones get an answer', async () => {
    await until('predictions are trusted', async () => {
      await ask()
      return (await ask(goal('0.001'))).reply.status === 503
    })
    const nvext = { nvext: { router: { ttft_target: 0.001 } } }
    const asked = [
      await ask(goal('0.001')),
      await ask({}, nvext),
      await ask({ 'x-dynamo-meta-policy-class': 'impatient' }),
      await ask(goal('0.001'), { stream: true }),
    ]
    for (const { reply, text } of asked) {
      expect([reply.status, text]).toEqual([503, expect.stringContaining('goal of 0.001 ms')])
      expect(JSON.parse(text).error.code).toBe('capacity.goal_unreachable')
      expect(Number(reply.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    }
    expect((await ask(goal('60000'), nvext)).reply.status).toBe(200)
  })

  it('a class family - the prompt length decides which goals apply, and the metric shows them', async () => {
    const sized = { 'x-dynamo-meta-policy-class': 'sized' }
    const long = {
      messages: [{ role: 'user', content: 'So long that it has to wait. '.repeat(400) }],
    }
    const refusedBefore = await count('goal="itl",outcome="refused"')
    expect((await ask(sized)).reply.status).toBe(200)
    expect((await ask(sized, long)).reply.status).toBe(503)
    expect((await count('goal="itl",outcome="refused"')) - refusedBefore).toBe(1)
  })

  it('an invalid goal - 400 with the name of the header', async () => {
    const { reply, text } = await ask(goal('soon'))
    expect([reply.status, JSON.parse(text).error.param]).toEqual([400, 'x-baton-ttft-target-ms'])
  })

  it('metric - counts met, missed and refused goals', async () => {
    await ask({ 'x-baton-itl-target-ms': '60000' })
    expect(await count('goal="ttft",outcome="met"')).toBeGreaterThanOrEqual(1)
    expect(await count('goal="ttft",outcome="missed"')).toBeGreaterThanOrEqual(1)
    expect(await count('goal="ttft",outcome="refused"')).toBeGreaterThanOrEqual(5)
    expect(await count('goal="itl",outcome="met"')).toBe(1)
    // The prediction error is exported as well.
    const metrics = await (await fetch(`${server.url}/metrics`)).text()
    const error = /^baton_frontend_router_ttft_error_ratio\{.*worker_type="decode".*\} (\S+)/m
    expect(Number(error.exec(metrics)?.[1])).toBeGreaterThan(0)
  })
})
