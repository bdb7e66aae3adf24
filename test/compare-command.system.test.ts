/** `baton compare` and `baton plan` with their real arguments and files. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { laboratoryCommands } from './laboratory-commands.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
const { at, baton, expectRefused } = laboratoryCommands()

interface Trial {
  readonly name: string
  readonly cost: number
  readonly good: number
  readonly margin: number
}

describe('baton compare, baton plan', () => {
  it('a trace from a file - the report says that seeds do not change the requests', async () => {
    await baton('workload', 'random', '--requests', '12', '--out', 'twelve.jsonl')
    const lines = ['--policy', 'round-robin', '--policy', 'random', '--seeds', '2']
    const { stdout } = await baton('compare', 'twelve.jsonl', ...lines)
    expect(stdout).toContain('The requests are those of the file with every seed')
    const made = await baton('compare', 'workload:random,requests=12', ...lines)
    expect(made.stdout).not.toContain('those of the file')
  })

  it('policies × fleets over seeds - the report has paired differences to the first one', async () => {
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
    const { contenders, differences, paired, runs } = JSON.parse(stdout) as {
      contenders: { name: string }[]
      paired: Record<string, { mean: number; pairs: number; margin: number }>[]
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
    const reuses = [0, 2].map((i) => runs[i]!.map(({ report }) => report.reuse))
    const mean = reuses[1]!.reduce((sum, reuse, i) => sum + reuse - reuses[0]![i]!, 0) / 2
    expect(paired[1]).toMatchObject({ name: 'round-robin on 3 agg', reuse: { pairs: 2 } })
    expect(paired[1]!['reuse']!.mean).toBeCloseTo(mean, 9)
    expect(readFileSync(at('compare.html'), 'utf8')).toContain('round-robin on 3 agg')
  })

  it('random faults - depend on fleet and seed, and the report lists them', async () => {
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
    // A worker that restarts after a death is listed as a new worker.
    for (const [i, size] of [1, 6].entries())
      for (const { report } of runs[i]!) expect(report.workers.length).toBeGreaterThan(size)
    // With a trace from a file the seed only determines the deaths.
    expect(runs[1]![0]!.report.migrations).not.toBe(runs[1]![1]!.report.migrations)
  })

  it('plan - prints the cheapest fleet and its confidence, or exits with 1 if there is none', async () => {
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
    const few = ['--prefill', '3', '--ttft', '1', '--max', '1', '--seeds', '1']
    const none = await baton(...load, ...few).catch((error: unknown) => error)
    expect(none).toMatchObject({ exitCode: 1, stdout: expect.stringContaining('no fleet within') })
    expect(none).toMatchObject({ stdout: expect.stringContaining('relax --ttft, --tpot') })
    expect(none).toMatchObject({ stderr: expect.stringContaining('--prefill is not used') })
  })

  it('plan - chooses among kinds of workers, as trying all of them does', async () => {
    const load = ['workload:random,requests=60,rate=40', '--seeds', '2', '--ttft', '300']
    const limits = [...load, '--tpot', '20', '--json', '-']
    const kinds = ['agg:1:cost=1', 'agg:9:speed=2,cost=1.8', 'decode:1', 'prefill:1:speed=4,cost=2']
    const said = kinds.flatMap((kind) => ['--workers', kind])
    const { stdout } = await baton('plan', ...limits, ...said, '--max', '3')
    const { plan } = JSON.parse(stdout) as {
      plan: { best: Trial; trials: Trial[] }
    }
    const fleets = [1, 2, 3].flatMap((n) => [
      [`agg:${n}`, n],
      [`agg:${n}:speed=2`, 1.8 * n],
      ...[1, 2, 3].map((d) => [`prefill:${n}:speed=4+decode:${d}`, 2 * n + d]),
    ]) as [string, number][]
    const all = fleets.flatMap(([fleet]) => ['--fleet', fleet])
    const compared = await baton('compare', ...limits, ...all)
    const { runs } = JSON.parse(compared.stdout) as { runs: { report: { good: number } }[][] }
    const costs = fleets
      .filter((_, i) => runs[i]!.reduce((sum, { report }) => sum + report.good, 0) / 2 >= 0.99)
      .map(([, cost]) => cost)
    expect(plan.best.cost).toBe(Math.min(...costs))
    expect(plan.best.name).toBe('1 aggregated (speed=2)')
    expect(plan.trials.every(({ good, margin }) => good >= 0 && margin >= 0)).toBe(true)
  })

  it('a process of the comparison - ends in the middle of a run when its parent is gone', async () => {
    const cell = {
      name: 'long',
      trace: { workload: { kind: 'chat', requests: 20_000, requestsPerSecond: 40 }, options: {} },
      config: { workers: [{ mode: 'agg', count: 8 }] },
      drawnFaults: null,
    }
    const child = spawn(process.execPath, [MAIN, 'lab-cell'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let printed = ''
    child.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    child.stdin.end(`${JSON.stringify(cell)}\n`)
    await once(child, 'close')
    expect(printed).toBe('')
  })

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
  ])('%j - is refused in one line', async (args, what) => {
    await expectRefused(args, what)
  })
})
