/**
 * The commands of the laboratory: simulated fleets, and load for live servers. See docs/laboratory.md.
 */
import type { Command } from 'commander'
import { GROUPS_OF } from '../options/option-spec.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import {
  collect,
  withFaultFlags,
  withFleetFlags,
  withRunFlags,
  withTraceFlags,
} from './lab-flags.ts'
import type { Flags } from './lab-flags.ts'

interface LabProgram {
  readonly exit: (code: number) => void
  /** The program that a process of the laboratory runs. */
  readonly main: string
  readonly withOptions: (command: Command, groups: readonly string[]) => Command
  readonly resolved: (flags: Readonly<Record<string, unknown>>) => readonly ResolvedOption[]
}

const WORKLOAD_NAMES =
  'random, shared-prefix, chat, agents, rag, mix; or poisson, bursts, diurnal, constant for random prompts'

const REPLAY_EXAMPLES = `
Examples:
  baton replay trace.jsonl --aggregated 10 --json r.json --html r.html
  baton replay trace.jsonl --prefill 4 --decode 4 --router-mode round-robin
  baton replay workload:chat,requests=2000,rate=8,seed=1 --workers agg:6 --workers agg:2:speed=0.25
  baton replay trace.jsonl --spread --aggregated 20 --faults deaths=3,partitions=1 --check`

const COMPARE_EXAMPLES = `
Examples:
  baton compare workload:agents,requests=2000,rate=20 --aggregated 8 --policy kv --policy least-loaded --seeds 5
  baton compare trace.jsonl --spread --fleet agg:8 --fleet prefill:4+decode:4 --policy kv --html c.html
  baton compare trace.jsonl --policy kv --policy kv:prefillLoadScale=1,decodeActiveRequestWeight=0`

const PLAN_EXAMPLES = `
Examples:
  baton plan trace.jsonl --spread --ttft 2000 --tpot 25 --good 0.99
  baton plan workload:chat,requests=3000,rate=30 --ttft 500 --tpot 20 --kinds disaggregated --costs prefill=2,decode=1
  baton plan trace.jsonl --workers agg:1:cost=1 --workers agg:1:speed=2,cost=1.8`

const BENCH_EXAMPLES = `
Examples:
  baton bench http://127.0.0.1:8000 workload:chat,requests=200,rate=2 --html bench.html
  baton bench http://127.0.0.1:8000 trace.jsonl --limit 500 --direct http://127.0.0.1:8080 --concurrency 16`

export function addLaboratory(root: Command, program: LabProgram): void {
  addReplay(root, program)
  addWorkload(root, program)
  addCompare(root, program)
  addPlan(root, program)
  addBench(root, program)
  addProfile(root, program)
  root.command('lab-cell', { hidden: true }).action(async () => {
    const { runCellsOfInput } = await import('./cell-process.ts')
    program.exit(await runCellsOfInput())
  })
}

/** The laboratory allows more workers than a machine could run, and its block size is that of the trace. */
function optionsOf(program: LabProgram, flags: Flags): readonly ResolvedOption[] {
  const { aggregated: _a, prefill: _p, decode: _d, blockSize: _b, ...rest } = flags
  return program.resolved(rest)
}

function simulating(command: Command, program: LabProgram): Command {
  return program.withOptions(
    withFaultFlags(withRunFlags(withFleetFlags(withTraceFlags(command)))),
    GROUPS_OF.laboratory,
  )
}

function addReplay(root: Command, program: LabProgram): void {
  const command = root
    .command('replay <trace>')
    .description('run a trace or a workload on a simulated fleet, in virtual time')
    .addHelpText('after', REPLAY_EXAMPLES)
  simulating(command, program)
    .option(
      '--telemetry <file>',
      'write the state of the fleet over time, one JSON object per line',
    )
    .option('--requests <file>', 'write the result of each request, one JSON object per line')
    .action(async (trace: string, flags: Flags) => {
      const { runReplay } = await import('./replay-command.ts')
      program.exit(await runReplay(trace, flags, optionsOf(program, flags)))
    })
}

function addWorkload(root: Command, program: LabProgram): void {
  root
    .command('workload <kind>')
    .description(`generate requests from a seed, as a trace: ${WORKLOAD_NAMES}`)
    .option(
      '--arrivals <name>',
      'arrival process: poisson, bursts, diurnal or constant (default: poisson)',
    )
    .option('--requests <n>', 'number of requests, turns of sessions included (default: 1000)')
    .option('--rate <x>', 'mean arrival rate in requests per second (default: 5)')
    .option('--seed <n>', 'seed of all random choices (default: 0)')
    .option('--input <tokens>', 'mean number of new prompt tokens per request (mix: per short one)')
    .option('--output <tokens>', 'mean number of output tokens per request')
    .option(
      '--groups <n>',
      'number of prefixes (shared-prefix), documents (rag) or sets of tools (agents) that requests share',
    )
    .option('--turns <n>', 'mean number of turns in a session (chat, agents)')
    .option('--think <ms>', 'mean pause between the end of a turn and the next one (chat, agents)')
    .option('--out <file>', 'output file (default: standard output)')
    .action(async (kind: string, flags: Flags) => {
      const { runWorkload } = await import('./workload-command.ts')
      program.exit(runWorkload(kind, flags))
    })
}

function addCompare(root: Command, program: LabProgram): void {
  const command = root
    .command('compare <trace>')
    .description(
      'compare policies and fleets on the same requests and seeds, with paired differences',
    )
    .addHelpText('after', COMPARE_EXAMPLES)
  simulating(command, program)
    .option(
      '--policy <mode>',
      'routing policy, may be repeated: mode, or mode:option=value,option=value',
      collect,
    )
    .option('--fleet <groups>', 'fleet, may be repeated: groups joined by +', collect)
    .option('--seeds <n>', 'number of seeds; each policy runs on each fleet once per seed', '3')
    .option('--jobs <n>', 'processes at the same time (default: one per core)')
    .action(async (trace: string, flags: Flags) => {
      const { runCompare } = await import('./compare-command.ts')
      program.exit(await runCompare(trace, flags, optionsOf(program, flags), program.main))
    })
}

function addPlan(root: Command, program: LabProgram): void {
  const command = root
    .command('plan <trace>')
    .description('find the cheapest number and kind of workers that meets the goals')
    .addHelpText('after', PLAN_EXAMPLES)
  simulating(command, program)
    .option('--good <share>', 'share of all requests that must meet the goals', '0.99')
    .option(
      '--kinds <list>',
      'kinds of fleets to try: aggregated, disaggregated or both',
      'aggregated,disaggregated',
    )
    .option(
      '--costs <list>',
      'cost of a worker of each role: aggregated=1,prefill=1,decode=1; cost= in a group of --workers is that of the group',
    )
    .option('--max <n>', 'most workers of each kind', '64')
    .option('--seeds <n>', 'number of seeds; each fleet runs once per seed', '3')
    .action(async (trace: string, flags: Flags) => {
      const { runPlan } = await import('./plan-command.ts')
      program.exit(await runPlan(trace, flags, optionsOf(program, flags), program.main))
    })
}

function addBench(root: Command, program: LabProgram): void {
  const command = root
    .command('bench <url> [trace]')
    .description(
      'send a trace or a workload to a live server (any OpenAI endpoint) and print the report of a replay',
    )
    .addHelpText('after', BENCH_EXAMPLES)
  withRunFlags(withTraceFlags(command))
    .option(
      '--direct <url>',
      'address of the engine itself, which is measured first in the same run',
    )
    .option('--model <name>', 'model name (default: the first that the server lists)')
    .option('--api-key <key>', 'bearer token (default: BATON_API_KEY)')
    .option('--token-range <from:to>', 'range of token ids that prompts are made of', '300:1300')
    .option('--text', 'make prompts of words, for servers that accept no token ids')
    .option('--chat', 'send the words to /v1/chat/completions, for servers without /v1/completions')
    .option('--timeout <seconds>', 'a request without data for this time fails', '240')
    .option('--leaving <share>', 'share of clients that disconnect before the end', '0')
    .option('--slow <share>', 'share of clients that read slowly', '0')
    .option(
      '--telemetry <file>',
      'write the number of running requests over time, one JSON object per line',
    )
    .option('--requests <file>', 'write the result of each request, one JSON object per line')
    .action(async (url: string, trace: string | undefined, flags: Flags) => {
      const { runBench } = await import('./bench-command.ts')
      program.exit(
        await runBench(url, trace ?? 'workload:random,requests=100,input=200,output=50', flags),
      )
    })
}

function addProfile(root: Command, program: LabProgram): void {
  root
    .command('profile <url>')
    .description(
      'measure the speed of a running engine, as a file for --timing of replay, compare and plan',
    )
    .option('--model <name>', 'model name (default: the first that the server lists)')
    .option('--api-key <key>', 'bearer token (default: BATON_API_KEY)')
    .option('--token-range <from:to>', 'range of token ids that prompts are made of', '300:1300')
    .option('--text', 'make prompts of words, for servers that accept no token ids')
    .option('--chat', 'send the words to /v1/chat/completions, for servers without /v1/completions')
    .option('--max-prompt <tokens>', 'longest prompt that is measured', '2048')
    .option('--max-batch <n>', 'most requests at the same time', '8')
    .option('--repeats <n>', 'repetitions of each measurement', '7')
    .option('--seed <n>', 'seed of the prompts (default: a new one each time)')
    .option('--out <file>', 'output file (default: standard output)')
    .option('--quiet', 'print no table')
    .action(async (url: string, flags: Flags) => {
      const { runProfile } = await import('./profile-command.ts')
      program.exit(await runProfile(url, flags))
    })
}
