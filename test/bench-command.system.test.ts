/** `baton bench` and `baton profile` against a running server with a simulated engine. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { laboratoryCommands } from './laboratory-commands.ts'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const { at, baton } = laboratoryCommands()

const JSON_HEADERS = { 'content-type': 'application/json' }

describe('baton bench, baton profile', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer(['--engine', 'sim', '--aggregated', '1', '--in-process'])
  })
  afterAll(() => server.stop())

  it('a workload on a live server, direct and routed - same kind of report, and prompts that no cache has', async () => {
    const load = ['workload:random,requests=12,input=64,output=8', '--concurrency', '3']
    const reports = ['--direct', server.url, '--json', '-', '--html', 'bench.html']
    const { stdout } = await baton('bench', server.url, ...load, ...reports)
    const { runs } = JSON.parse(stdout) as {
      runs: { name: string; report: { completed: number; outputTokens: number; reuse: number } }[]
    }
    expect(runs.map(({ name }) => name)).toEqual([`direct ${server.url}`, `routed ${server.url}`])
    for (const { report } of runs) {
      expect(report.completed).toBe(12)
      expect(report.reuse).toBe(0)
      expect(report.outputTokens).toBeGreaterThan(12)
    }
    expect(readFileSync(at('bench.html'), 'utf8')).toContain('routed http')
  })

  it('consecutive loads on a server - only a repeated load finds cached prompts', async () => {
    const reuseOf = async (...args: string[]): Promise<number> => {
      const { stdout } = await baton('bench', server.url, ...args, '--json', '-')
      const { runs } = JSON.parse(stdout) as { runs: { report: { reuse: number } }[] }
      return runs[0]!.report.reuse
    }
    const load = 'workload:random,requests=6,rate=50,input=256,output=2'
    expect(await reuseOf(load)).toBe(0)
    expect(await reuseOf(`${load},seed=1`)).toBe(0)
    expect(await reuseOf('workload:mix,requests=3,rate=50,input=64,output=2')).toBe(0)
    expect(await reuseOf(load, '--seed', '1')).toBe(0)
    expect(await reuseOf(load)).toBeGreaterThan(0.5)
  })

  it('clients that disconnect or read slowly - are not counted as server failures', async () => {
    const load = ['workload:random,requests=12,rate=40,input=64,output=20', '--json', '-']
    const { stdout } = await baton(
      'bench',
      server.url,
      ...load,
      '--leaving',
      '0.5',
      '--slow',
      '0.3',
    )
    const { runs } = JSON.parse(stdout) as {
      runs: { report: { completed: number; failed: Record<string, number> } }[]
    }
    const { completed, failed } = runs[0]!.report
    expect(Object.keys(failed)).toEqual(['request.cancelled'])
    expect(completed + failed['request.cancelled']!).toBe(12)
  })

  it('profile - writes a timing file that replay accepts', async () => {
    const probes = ['--max-prompt', '256', '--max-batch', '2', '--repeats', '1', '--quiet']
    await baton('profile', server.url, ...probes, '--out', 'timing.json')
    const { timing, seed } = JSON.parse(readFileSync(at('timing.json'), 'utf8')) as {
      timing: { kind: string; prefill: number[]; decode: number[] }
      seed: number
    }
    expect(timing.kind).toBe('linear')
    expect([...timing.prefill, ...timing.decode].every((value) => value >= 0)).toBe(true)
    const load = ['workload:random,requests=20,input=200,output=20', '--timing', 'timing.json']
    expect((await baton('replay', ...load)).stdout).toMatch(/completed 20/)
    // A repetition of the same prompts is refused: they would be cached and appear to take no time.
    const again = ['profile', server.url, ...probes, '--seed', String(seed)]
    const refused = await baton(...again).catch((error: unknown) => error)
    expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('in its cache') })
  })

  it('profile - prompts that the server has in its cache are refused before anything is measured', async () => {
    // Its streams are too short to measure anything beside them, as those of a busy machine may be.
    const short = createServer((request, response) => {
      request.resume().once('end', () => {
        if (request.method === 'GET') return response.end('{"data":[{"id":"m"}]}')
        const usage = { prompt_tokens: 64, prompt_tokens_details: { cached_tokens: 48 } }
        const events = [{ choices: [{ index: 0, text: 'a' }] }, { choices: [], usage }]
        response.setHeader('content-type', 'text/event-stream')
        for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`)
        return response.end('data: [DONE]\n\n')
      })
    })
    await new Promise<void>((resolve) => {
      short.listen(0, '127.0.0.1', resolve)
    })
    const { port } = short.address() as AddressInfo
    const asked = baton('profile', `http://127.0.0.1:${port}`, '--seed', '1', '--quiet')
    const refused = await asked.catch((error: unknown) => error)
    short.close()
    expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('48 of 64') })
  })

  it('profile --chat - prompts of words have about the wanted number of tokens', async () => {
    const probes = ['--max-prompt', '256', '--max-batch', '1', '--repeats', '1', '--quiet']
    await baton('profile', server.url, '--chat', ...probes, '--out', 'chat.json')
    const { timing, prefill } = JSON.parse(readFileSync(at('chat.json'), 'utf8')) as {
      timing: { decode: number[] }
      prefill: { tokens: number; ttftMs: number; cachedTokens: number }[]
    }
    expect(prefill.map(({ tokens }) => tokens)).toContain(256)
    expect(prefill.every(({ ttftMs, cachedTokens }) => ttftMs > 0 && cachedTokens < 64)).toBe(true)
    expect(timing.decode[0]).toBeGreaterThan(0)
  })

  it('profile - measures prompts up to the longest that the server accepts', async () => {
    const probes = ['--max-prompt', '65536', '--max-batch', '1', '--repeats', '1']
    const { stderr } = await baton('profile', server.url, ...probes, '--out', 'longest.json')
    expect(stderr).toMatch(
      /a prompt of \d+ tokens is refused \(.*\): the longest measured prompt has \d+ tokens/,
    )
    const { prefill } = JSON.parse(readFileSync(at('longest.json'), 'utf8')) as {
      prefill: { tokens: number }[]
    }
    expect(prefill.length).toBeGreaterThan(3)
  })

  it('profile - keeps what it measured if the server answers 500 to long prompts and many requests', async () => {
    let underWay = 0
    const between = createServer((request, response) => {
      void (async () => {
        let body = ''
        for await (const piece of request) body += String(piece)
        const { prompt = [] } = (body === '' ? {} : JSON.parse(body)) as { prompt?: number[] }
        underWay++
        response.on('close', () => underWay--)
        if (prompt.length > 100 || underWay > 2) {
          response.writeHead(500).end('{"error":{"message":"too much"}}')
          return
        }
        const { method = 'GET', url = '/' } = request
        const init = body === '' ? { method } : { method, body, headers: JSON_HEADERS }
        const leave = new AbortController()
        response.on('close', () => leave.abort())
        const answer = await fetch(`${server.url}${url}`, { ...init, signal: leave.signal })
        response.writeHead(answer.status)
        for await (const piece of answer.body ?? []) response.write(piece)
        response.end()
      })().catch(() => response.destroy())
    })
    between.listen(0, '127.0.0.1')
    await once(between, 'listening')
    const { port } = between.address() as AddressInfo
    try {
      const probes = ['--max-prompt', '128', '--max-batch', '4', '--repeats', '1']
      const { stderr } = await baton(
        'profile',
        `http://127.0.0.1:${port}`,
        ...probes,
        '--out',
        'some.json',
      )
      expect(stderr).toContain('a prompt of 128 tokens is refused (too much)')
      expect(stderr).toMatch(/3 requests with \d+ tokens each are refused/)
      const { prefill, decode } = JSON.parse(readFileSync(at('some.json'), 'utf8')) as {
        prefill: unknown[]
        decode: unknown[]
      }
      expect([prefill.length, decode.length]).toEqual([3, 4])
    } finally {
      between.closeAllConnections()
      between.close()
    }
  })

  it('no server, or an unknown model - one line and exit code 1', async () => {
    const failed = await baton('bench', 'http://127.0.0.1:1').catch((error: unknown) => error)
    expect(failed).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('no server answers'),
    })
    const load = ['workload:random,requests=2,input=9,output=2', '--model', 'nobody']
    const other = await baton('bench', server.url, ...load).catch((error: unknown) => error)
    expect(other).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining('request.not_found'),
    })
  })
})
