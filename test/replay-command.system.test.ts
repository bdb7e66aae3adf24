/** `baton workload` and `baton replay` with their real arguments and files. */
import { readFileSync, writeFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { laboratoryCommands } from './laboratory-commands.ts'

const { at, baton, expectRefused } = laboratoryCommands()

const WRONG_FAULTS = [
  ['kind', 'faults: [{ kind: deth, worker: 0, atMs: 1 }]'],
  ['null', 'faults: [null]'],
  ['until', 'faults: [{ kind: slow, worker: 0, atMs: 1, factor: 2 }]'],
  ['restart', 'faults: [{ kind: death, worker: 0, atMs: 1, restartMs: soon }]'],
  ['name', 'fault: []'],
] as const

describe('baton workload, baton replay', () => {
  it('a workload - is written to a file and replayed; the same seed gives identical output', async () => {
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
  })

  it('--config - the fleet of baton.yaml is simulated', async () => {
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
    // Fleet options on the command line replace the whole fleet of the file; --limit and --speedup also apply to
    // generated requests.
    const flags = ['--config', 'fleet.yaml', '--aggregated', '2', '--limit', '7', '--speedup', '2']
    const other = await baton('replay', requests, ...flags, '--json', '-')
    const { config: fleet, run: result } = JSON.parse(other.stdout) as {
      config: { workers: unknown[] }
      run: { report: { requests: number } }
    }
    expect(fleet.workers).toMatchObject([{ mode: 'agg', count: 2 }])
    expect(result.report.requests).toBe(7)
  })

  it('upstreams and engine pace of baton.yaml - set the number and speed of the simulated workers', async () => {
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
  })

  it('a fleet that answers no request - is reported in one line with exit code 1', async () => {
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
  })

  it('--router-kv-events false - gives another result only when workers evict blocks', async () => {
    const replay = async (events: string, ...fleet: string[]): Promise<unknown> => {
      const load = ['workload:rag,requests=100,rate=6,seed=1', '--aggregated', '4', ...fleet]
      const flags = ['--router-cost', 'blocks', '--router-kv-events', events, '--json', '-']
      const { stdout } = await baton('replay', ...load, ...flags)
      return (JSON.parse(stdout) as { run: { report: unknown } }).run.report
    }
    // Without evictions both routers know the same blocks.
    expect(await replay('false')).toEqual(await replay('true'))
    const small = ['--sim-blocks', '500']
    expect(await replay('false', ...small)).not.toEqual(await replay('true', ...small))
  })

  it('--auto-roles - decode workers become prefill workers as in a real fleet', async () => {
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
  })

  it('--timing - accepts the two formats of the documentation', async () => {
    const docs = readFileSync(new URL('../docs/laboratory.md', import.meta.url), 'utf8')
    const forms = [...docs.matchAll(/```json\n(.*?)```/gs)].map(([, json]) => json!)
    expect(forms).toHaveLength(2)
    for (const form of forms) {
      writeFileSync(at('form.json'), form)
      const load = 'workload:random,requests=9,input=1024,output=9'
      const { stdout } = await baton('replay', load, '--timing', 'form.json')
      expect(stdout).toContain('completed 9')
    }
  })

  it("hash_ids of blocks larger than the engine's - keep the prompt length", async () => {
    const line = { timestamp: 0, input_length: 5000, output_length: 2, hash_ids: [1, 2, 3] }
    writeFileSync(at('large.jsonl'), `${JSON.stringify(line)}\n`)
    const { stdout } = await baton('replay', 'large.jsonl', '--block-size', '2048', '--json', '-')
    const { run: result } = JSON.parse(stdout) as { run: { report: { promptTokens: number } } }
    expect(result.report.promptTokens).toBe(5000)
  })

  it('a compressed trace of another tool - is read, and missing data is reported', async () => {
    const row = { timestamp: null, delay: 0, input_length: 64, output_length: 2, hash_ids: [1, 2] }
    writeFileSync(at('other.jsonl.gz'), gzipSync(`${JSON.stringify(row)}\r\n`.repeat(3)))
    const { stdout } = await baton('replay', 'other.jsonl.gz')
    expect(stdout).toContain('completed 3')
    expect(stdout).toContain('all 3 requests have the same time')
    expect(stdout).toContain('3 prompts have more hash_ids than blocks')
    const fitting = await baton('replay', 'other.jsonl.gz', '--block-size=32', '--concurrency=1')
    expect(fitting.stdout).not.toMatch(/same time|block-size/)
  })

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
    [['replay', 'workload:chat', '--workers', 'aggregated'], 'as in aggregated:4'],
    [['replay', 'workload:chat', '--aggregated', '-1'], '--aggregated'],
    [['replay', 'workload:chat', '--prefill', '2'], 'add --decode'],
    [['replay', 'workload:chat', '--concurrency', '0'], '--concurrency'],
    [['replay', 'workload:chat', '--faults', 'rain=1'], "unknown name 'rain'"],
    [['replay', 'workload:chat', '--faults', 'loss=2'], 'messageLoss'],
    [['replay', 'workload:chat', '--format', 'xml'], '--format'],
    [['replay', 'workload:chat', '--aggregated', '0'], 'no workers'],
    [['replay', 'workload:chat', '--workers', 'agg:0'], 'no workers'],
    [['replay', 'workload:chat', '--workers', 'agg:2', '--prefill', '1'], '--workers or --prefill'],
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
  ])('%j - is refused in one line', async (args, what) => {
    for (const [name, text] of WRONG_FAULTS) writeFileSync(at(`${name}.yaml`), text)
    await expectRefused(args, what)
  })
})
