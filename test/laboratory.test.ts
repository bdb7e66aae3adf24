/** `baton replay` and `baton workload` as a user runs them. */
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BatonsInTurn } from './in-turn.ts'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-laboratory-'))
const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})
/** Rejects with exit code and streams when the command fails. Each as a process of its own: docs-run.test.ts. */
async function baton(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const ended = await batons.run(args, {}, folder)
  if (ended.exitCode !== 0) throw Object.assign(new Error(ended.printed), ended)
  return ended
}
const JSON_HEADERS = { 'content-type': 'application/json' }
const at = (name: string): string => join(folder, name)

afterAll(() => rmSync(folder, { recursive: true }))

const WRONG_FAULTS = [
  ['kind', 'faults: [{ kind: deth, worker: 0, atMs: 1 }]'],
  ['null', 'faults: [null]'],
  ['until', 'faults: [{ kind: slow, worker: 0, atMs: 1, factor: 2 }]'],
  ['restart', 'faults: [{ kind: death, worker: 0, atMs: 1, restartMs: soon }]'],
  ['name', 'fault: []'],
] as const

describe('baton workload, baton replay', () => {
  it('a workload is written to a file and replayed on a fleet; the same seed gives the same bytes', async () => {
    const made = await baton('workload', 'chat', '--requests', '60', '--rate', '5', '--seed', '2')
    expect(made.stderr).toMatch(/^60 requests, mean \d+ input tokens and \d+ output tokens/)
    writeFileSync(at('chat.jsonl'), made.stdout)
    const replay = async (name: string): Promise<string> => {
      const files = ['--json', `${name}.json`, '--html', `${name}.html`]
      const logs = ['--telemetry', `${name}-time.jsonl`, '--requests', `${name}-requests.jsonl`]
      const groups = ['prefill:1', 'decode:1', 'decode:1:speed=0.5,startup=0.01']
      const fleet = groups.flatMap((group) => ['--workers', group])
      const faults = ['--faults', 'breaks=1,event-loss=0.1,delay=0.2', '--check', '--kv-hand-over']
      return (await baton('replay', 'chat.jsonl', ...fleet, ...faults, ...files, ...logs)).stdout
    }
    const text = await replay('one')
    expect(text).toContain('60 requests of trace chat.jsonl')
    expect(text).toContain(
      '1 prefill + 1 decode + 1 decode (speed=0.5,startup=0.01), router mode kv',
    )
    expect(text).toMatch(/requests +60, completed 60/)
    expect(await replay('two')).toBe(text)
    for (const file of ['.json', '.html', '-time.jsonl', '-requests.jsonl'])
      expect(readFileSync(at(`one${file}`), 'utf8')).toBe(readFileSync(at(`two${file}`), 'utf8'))
    const { run: result } = JSON.parse(readFileSync(at('one.json'), 'utf8')) as {
      run: { report: { requests: number; violations: unknown[] } }
    }
    expect(result.report).toMatchObject({ requests: 60, violations: [] })
    expect(readFileSync(at('one-requests.jsonl'), 'utf8').trim().split('\n')).toHaveLength(60)
  }, 60_000)

  it('the fleet of baton.yaml - is simulated as it would serve', async () => {
    const yaml =
      'engine: sim\nprefill: 2\ndecode: 3\nrouterMode: round-robin\nsimBlocks: 4096\nfrontends: 2\ncontextLength: 4000\n'
    writeFileSync(at('fleet.yaml'), yaml)
    const requests = 'workload:random,requests=20'
    const { stdout } = await baton('replay', requests, '--config', 'fleet.yaml', '--json', '-')
    const { facts, config } = JSON.parse(stdout) as {
      facts: string[]
      config: { workers: unknown; router: unknown }
    }
    expect(facts[0]).toBe(
      '20 requests of workload random (arrivals poisson, requests 20, requestsPerSecond 5)',
    )
    expect(config.workers).toMatchObject([
      { mode: 'prefill', count: 2, engine: { blockTokens: 16, blockCount: 4096, maxSequences: 8 } },
      { mode: 'decode', count: 3 },
    ])
    expect(config).toMatchObject({ router: { mode: 'round-robin' }, frontends: 2 })
    expect(facts).toEqual(expect.arrayContaining(['2 frontends', 'context of 4000 tokens']))
    // What flags say of the fleet is the whole fleet; limit and speed-up hold for made requests, too.
    const flags = ['--config', 'fleet.yaml', '--aggregated', '2', '--limit', '7', '--speedup', '2']
    const other = await baton('replay', requests, ...flags, '--json', '-')
    const { config: fleet, run: result } = JSON.parse(other.stdout) as {
      config: { workers: unknown[] }
      run: { report: { requests: number } }
    }
    expect(fleet.workers).toMatchObject([{ mode: 'agg', count: 2 }])
    expect(result.report.requests).toBe(7)
  }, 60_000)

  it('the upstreams and the pace of baton.yaml - as many simulated workers, with that pace', async () => {
    const pace =
      '{"promptMs":1000,"promptTokenMs":0,"stepMs":10,"stepRequestMs":0,"stepContextTokenMs":0}'
    const apart = 'prefill=http://a:1,decode=http://b:2,decode=http://c:3'
    const one = 'workload:random,requests=1,output=3'
    const replay = async (yaml: string, ...flags: string[]) => {
      writeFileSync(at('upstreams.yaml'), yaml)
      const all = ['replay', one, '--config', 'upstreams.yaml', '--json', '-', ...flags]
      return JSON.parse((await baton(...all)).stdout) as {
        facts: string[]
        config: { workers: object[] }
        run: { report: { ttftMs: { mean: number }; itlMs: { mean: number } } }
      }
    }
    const paced = await replay(`upstream: ${apart}\nenginePace: '${pace}'\n`)
    expect(paced.config.workers).toMatchObject([
      { mode: 'prefill', count: 1, pace: { promptMs: 1000 } },
      { mode: 'decode', count: 2, pace: { promptMs: 1000 } },
    ])
    expect(paced.run.report.ttftMs.mean).toBeGreaterThan(1000)
    expect(paced.run.report.itlMs.mean).toBeCloseTo(10, 0)
    const guess =
      'upstream servers are simulated with the speed of the simulated engine; use --timing for a measured one'
    expect(paced.facts).not.toContain(guess)
    const unknown = await replay('upstream: [http://a:1, http://b:2]\n')
    expect(unknown.config.workers).toMatchObject([{ mode: 'agg', count: 2 }])
    expect(unknown.facts).toContain(guess)
    const said = await replay('upstream: dns+http://name:1\n', '--aggregated', '3')
    expect(said.config.workers).toMatchObject([{ mode: 'agg', count: 3 }])
    for (const yaml of ['upstream: dns+http://name:1\n', 'upstreamFile: servers.yaml\n']) {
      const refused = await replay(yaml).catch((error: unknown) => error)
      expect(refused).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining('the number of servers'),
      })
    }
  }, 60_000)

  it('a fleet that answers no request - a line that says so, and exit code 1', async () => {
    const direct = ['replay', 'workload:random,requests=2', '--router-mode', 'direct']
    expect(await baton(...direct).catch((error: unknown) => error)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('do not name a worker') as string,
    })
    const small = ['--workers', 'agg:1:num_gpu_blocks=2']
    const served = await baton('replay', 'workload:random,requests=2', ...small).catch(
      (error: unknown) => error,
    )
    expect(served).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('no request was answered') as string,
    })
    const load = ['workload:random,requests=2,input=9000', '--seeds', '1', '--sim-blocks', '16']
    const commands = [
      ['compare', ...load, '--aggregated', '1', '--policy', 'kv', '--policy', 'round-robin'],
      ['plan', ...load, '--max', '2', '--good', '0'],
    ]
    for (const command of commands) {
      expect(await baton(...command).catch((error: unknown) => error)).toMatchObject({
        exitCode: 1,
        stderr: expect.stringMatching(
          /no request was answered: 2 × request.context_length_exceeded/,
        ) as string,
      })
    }
  }, 60_000)

  it('--router-kv-events false - has an effect as soon as workers evict what they were sent', async () => {
    const replay = async (events: string, ...fleet: string[]): Promise<unknown> => {
      const load = ['workload:rag,requests=100,rate=6,seed=1', '--aggregated', '4', ...fleet]
      const flags = ['--router-cost', 'blocks', '--router-kv-events', events, '--json', '-']
      const { stdout } = await baton('replay', ...load, ...flags)
      return (JSON.parse(stdout) as { run: { report: unknown } }).run.report
    }
    // Where nothing is evicted, both know the same.
    expect(await replay('false')).toEqual(await replay('true'))
    const small = ['--sim-blocks', '2000']
    expect(await replay('false', ...small)).not.toEqual(await replay('true', ...small))
  }, 60_000)

  it('--auto-roles - decode workers of the fleet become prefill workers as in a real fleet', async () => {
    const load = 'workload:random,requests=600,rate=14,input=4000,output=20'
    const fleet = ['--prefill', '1', '--decode', '4', '--json', '-']
    const modesOf = async (...flags: string[]): Promise<string> => {
      const { stdout } = await baton('replay', load, ...fleet, ...flags)
      const { run: result } = JSON.parse(stdout) as {
        run: { report: { workers: { mode: string }[] } }
      }
      return result.report.workers.map(({ mode }) => mode).join(' ')
    }
    const before = 'prefill decode decode decode decode'
    expect(await modesOf()).toBe(before)
    expect(await modesOf('--auto-roles')).toBe(`${before} prefill`)
  }, 60_000)

  it('--timing - both forms in the documentation are accepted', async () => {
    const docs = readFileSync(new URL('../docs/laboratory.md', import.meta.url), 'utf8')
    const forms = [...docs.matchAll(/```json\n(.*?)```/gs)].map(([, json]) => json!)
    expect(forms).toHaveLength(2)
    for (const form of forms) {
      writeFileSync(at('form.json'), form)
      const load = 'workload:random,requests=9,input=1024,output=9'
      const { stdout } = await baton('replay', load, '--timing', 'form.json')
      expect(stdout).toContain('completed 9')
    }
  }, 30_000)

  it('a trace whose ids stand for more tokens than a block of the engine', async () => {
    const line = { timestamp: 0, input_length: 5000, output_length: 2, hash_ids: [1, 2, 3] }
    writeFileSync(at('large.jsonl'), `${JSON.stringify(line)}\n`)
    const { stdout } = await baton('replay', 'large.jsonl', '--block-size', '2048', '--json', '-')
    const { run: result } = JSON.parse(stdout) as { run: { report: { promptTokens: number } } }
    expect(result.report.promptTokens).toBe(5000)
  }, 30_000)

  it('a compressed trace in a foreign format - is read, and missing information is reported', async () => {
    const row = { timestamp: null, delay: 0, input_length: 64, output_length: 2, hash_ids: [1, 2] }
    writeFileSync(at('other.jsonl.gz'), gzipSync(`${JSON.stringify(row)}\r\n`.repeat(3)))
    const { stdout } = await baton('replay', 'other.jsonl.gz')
    expect(stdout).toContain('completed 3')
    expect(stdout).toContain('all 3 requests have the same time')
    expect(stdout).toContain('3 prompts have more hash_ids than blocks')
    const fitting = await baton('replay', 'other.jsonl.gz', '--block-size=32', '--concurrency=1')
    expect(fitting.stdout).not.toMatch(/one time|block-size/)
  }, 30_000)

  it.each([
    [['replay', 'nowhere.jsonl'], 'trace nowhere.jsonl: not readable'],
    [['replay', 'nowhere.jsonl'], 'the file does not exist'],
    [['replay', '.'], 'trace .: not readable: it is a folder'],
    [['replay', 'workload:chat,rate='], "workload: 'rate=': expected a value"],
    [['compare', 'workload:chat', '--policy', 'kv:temperature='], '--policy: '],
    [['replay', 'workload:tea'], "workload: 'tea'"],
    [['replay', 'workload:chat,sugar=1'], "unknown name 'sugar'"],
    [['replay', 'workload:chat', '--workers', 'cook:2'], 'expected agg, prefill or decode'],
    [['replay', 'workload:chat', '--workers', 'agg:x'], '--workers'],
    [['replay', 'workload:chat', '--aggregated', '-1'], '--aggregated'],
    [['replay', 'workload:chat', '--prefill', '2'], 'add --decode'],
    [['replay', 'workload:chat', '--concurrency', '0'], '--concurrency'],
    [['replay', 'workload:chat', '--faults', 'rain=1'], "unknown name 'rain'"],
    [['replay', 'workload:chat', '--faults', 'loss=2'], 'messageLoss'],
    [['replay', 'workload:chat', '--format', 'xml'], '--format'],
    [['replay', 'workload:chat', '--aggregated', '0'], 'no workers'],
    [['replay', 'workload:chat', '--workers', 'agg:0'], 'no workers'],
    [['replay', 'workload:chat', '--workers', 'prefill:2'], 'add --decode'],
    [['replay', 'workload:chat', '--workers', 'agg:1:tea=1'], '--workers: tea'],
    [['replay', 'workload:chat', '--speedup', '0'], '--speedup'],
    [['replay', 'workload:chat,requests=2.5'], 'requests'],
    [['replay', 'workload:chat,rate=0'], 'workload: rate'],
    [['replay', 'workload:chat', '--faults', 'deaths=1e12'], 'expected at most 100000'],
    [['replay', 'workload:chat', '--faults', 'deaths=1.5'], '--faults deaths'],
    [['replay', 'workload:chat', '--faults', 'kind.yaml'], 'faults[0]: expected a kind of death'],
    [['replay', 'workload:chat', '--faults', 'null.yaml'], 'faults[0]: expected a kind of death'],
    [['replay', 'workload:chat', '--faults', 'until.yaml'], 'faults[0] (slow): untilMs'],
    [['replay', 'workload:chat', '--faults', 'restart.yaml'], 'faults[0] (death): restartMs'],
    [['replay', 'workload:chat', '--faults', 'name.yaml'], "unknown name 'fault'"],
    [['replay', 'workload:chat', '--workers', 'agg:1:speed=0'], 'speed=0'],
    [['replay', 'workload:chat', '--leaving', '1.5'], '--leaving'],
    [['replay', 'workload:chat', '--overhead', 'much'], '--overhead: much'],
    [['replay', 'workload:chat', '--json', '/nowhere/r.json'], '--json: /nowhere/r.json'],
    [['replay', 'workload:chat', '--html', '/'], '--html: / is a directory'],
    [['workload', 'chat', '--requests', '1e12'], 'requests must be at most 1000000'],
    [['workload', 'chat', '--out', '/nowhere/w.jsonl'], '--out: /nowhere/w.jsonl'],
  ])(
    '%j - is refused in one line',
    async (args, what) => {
      for (const [name, text] of WRONG_FAULTS) writeFileSync(at(`${name}.yaml`), text)
      const failed = await batons.run(args, {}, folder)
      expect([failed.exitCode, failed.stderr]).toEqual([2, expect.stringContaining(what)])
      expect(failed.stderr.trim().split('\n')).toHaveLength(1)
    },
    30_000,
  )
})

describe('baton compare, baton plan', () => {
  it('a trace from a file - the report says that seeds draw no other requests', async () => {
    await baton('workload', 'random', '--requests', '12', '--out', 'twelve.jsonl')
    const lines = ['--policy', 'round-robin', '--policy', 'random', '--seeds', '2']
    const { stdout } = await baton('compare', 'twelve.jsonl', ...lines)
    expect(stdout).toContain('The requests are those of the file with every seed')
    const made = await baton('compare', 'workload:random,requests=12', ...lines)
    expect(made.stdout).not.toContain('those of the file')
  }, 60_000)

  it('policies × fleets over seeds - paired differences from the first one', async () => {
    const load = ['workload:shared-prefix,requests=80,rate=10', '--seeds', '2', '--json', '-']
    const policies = [
      '--policy',
      'kv',
      '--policy',
      'kv:overlapScoreCredit=0',
      '--policy',
      'round-robin',
    ]
    const fleets = ['--fleet', 'agg:3', '--fleet', 'prefill:1+decode:2', '--html', 'compare.html']
    const { stdout } = await baton('compare', ...load, ...policies, ...fleets)
    const { contenders, differences, runs } = JSON.parse(stdout) as {
      contenders: { name: string }[]
      differences: { rows: string[][] }
      runs: { report: { requests: number; reuse: number } }[][]
    }
    expect(contenders.map(({ name }) => name)).toEqual([
      'kv on 3 agg',
      'kv:overlapScoreCredit=0 on 3 agg',
      'round-robin on 3 agg',
      'kv on 1 prefill + 2 decode',
      'kv:overlapScoreCredit=0 on 1 prefill + 2 decode',
      'round-robin on 1 prefill + 2 decode',
    ])
    expect(runs.map((seeds) => seeds.length)).toEqual([2, 2, 2, 2, 2, 2])
    expect(runs[0]![0]!.report.reuse).toBeGreaterThan(runs[2]![0]!.report.reuse)
    expect(differences.rows[2]![6]).toMatch(/^-\d+\.\d ± \d+\.\d %$/)
    expect(readFileSync(at('compare.html'), 'utf8')).toContain('round-robin on 3 agg')
  }, 120_000)

  it('drawn faults - are named in the report with the fleet and seed that they affect', async () => {
    const workload = ['random', '--requests', '60', '--rate', '20', '--out', 'deaths.jsonl']
    await baton('workload', ...workload)
    const load = ['deaths.jsonl', '--faults', 'deaths=3,event-loss=0.1']
    const fleets = ['--fleet', 'agg:1', '--fleet', 'agg:6', '--seeds', '2', '--json', '-']
    const { stdout } = await baton('compare', ...load, ...fleets)
    const { facts, runs } = JSON.parse(stdout) as {
      facts: string[]
      runs: { report: { migrations: number; workers: unknown[] } }[][]
    }
    expect(facts).toContain('faults: deaths 3, drawn by seed 0, eventLoss 0.1')
    // Who comes up again after a death is a worker of its own.
    for (const [i, size] of [1, 6].entries())
      for (const { report } of runs[i]!) expect(report.workers.length).toBeGreaterThan(size)
    // Of a trace from a file a seed draws the deaths.
    expect(runs[1]![0]!.report.migrations).not.toBe(runs[1]![1]!.report.migrations)
  }, 60_000)

  it('plan - the cheapest fleet, its confidence, and exit code 1 when there is none', async () => {
    const load = ['plan', 'workload:random,requests=40,rate=40,input=2000', '--tpot', '40']
    const fits = await baton(
      ...load,
      '--ttft',
      '400',
      '--good',
      '0.9',
      '--max',
      '16',
      '--json',
      '-',
    )
    const { plan, verdict } = JSON.parse(fits.stdout) as {
      plan: { best: { cost: number }; trials: { meets: boolean; cost: number }[] }
      verdict: string
    }
    expect(verdict).toMatch(/% good; the/)
    for (const trial of plan.trials)
      if (trial.meets) expect(trial.cost).toBeGreaterThanOrEqual(plan.best.cost)
    const none = await baton(...load, '--ttft', '1', '--max', '1', '--seeds', '1').catch(
      (error: unknown) => error,
    )
    expect(none).toMatchObject({ exitCode: 1, stdout: expect.stringContaining('no fleet within') })
  }, 120_000)

  it.each([
    [['compare', 'workload:chat', '--policy', 'tea'], 'mode'],
    [['compare', 'workload:chat', '--policy', 'kv:nonsense=1'], 'nonsense'],
    [['compare', 'workload:chat', '--fleet', 'agg'], '--workers'],
    [['compare', 'workload:chat', '--seeds', '0'], '--seeds'],
    [['plan', 'workload:chat', '--good', '2'], '--good'],
    [['plan', '-'], 'give a file'],
    [['compare', '-'], 'give a file'],
    [['compare', 'workload:chat', '--fleet', 'agg:0'], 'no workers'],
    [['plan', 'workload:chat', '--html', '/nowhere/p.html'], '--html: /nowhere/p.html'],
    [['compare', 'workload:chat', '--json', '/nowhere/c.json'], '--json: /nowhere/c.json'],
    [['plan', 'workload:chat', '--kinds', 'both'], '--kinds'],
    [['plan', 'workload:chat', '--costs', 'gpu=3'], "unknown name 'gpu'"],
  ])(
    '%j - is refused in one line',
    async (args, what) => {
      const failed = await batons.run(args, {}, folder)
      expect([failed.exitCode, failed.stderr]).toEqual([2, expect.stringContaining(what)])
      expect(failed.stderr.trim().split('\n')).toHaveLength(1)
    },
    30_000,
  )
})

describe('baton bench, baton profile', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer(['--engine', 'sim', '--aggregated', '1', '--in-process'])
  }, 60_000)
  afterAll(() => server.stop())

  it('a workload on a live server, direct and routed - the same report, with prompts that no cache contains', async () => {
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
  }, 60_000)

  it('one load after the other on a server - none hits the cache of another, the same one hits its own', async () => {
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
  }, 60_000)

  it('clients that disconnect or read slowly - are not failures of the server', async () => {
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
  }, 60_000)

  it('profile - writes a timing that replay accepts', async () => {
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
    // The same prompts again would be found in the server's cache, and seem to take no time.
    const again = ['profile', server.url, ...probes, '--seed', String(seed)]
    const refused = await baton(...again).catch((error: unknown) => error)
    expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('in its cache') })
  }, 60_000)

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
  }, 60_000)

  it('profile - a server that answers 500 to long prompts and many requests: earlier measurements are kept', async () => {
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
  }, 60_000)

  it('no server, another model - one line, exit code 1', async () => {
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
  }, 60_000)
})
