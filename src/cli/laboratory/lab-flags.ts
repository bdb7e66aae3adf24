/**
 * The flags of the laboratory's commands. The flags of router and simulated engine are those of the server
 * (`option-table.ts`).
 */
import type { Command } from 'commander'
import { apiKey } from '../commands/api-key.ts'

/** As the `commander` library returns them: the value of a flag, or true for a switch. */
export type Flags = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/** `--api-key`, or the variable that Baton's other commands use. */
export function apiKeyOf(flags: Flags): { readonly apiKey?: string } {
  const key = apiKey(flags['apiKey'])
  return key === null ? {} : { apiKey: key }
}

export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value]
}

export function withTraceFlags(command: Command): Command {
  return command
    .option(
      '--format <name>',
      'format of the trace: auto, mooncake, agentic or dynamo (of Dynamo), log (of Baton) or csv',
      'auto',
    )
    .option('--block-size <tokens>', "tokens per block id in the trace's prompts (default: 512)")
    .option('--limit <n>', 'use only the first n requests')
    .option('--speedup <x>', 'divide the times between arrivals by x')
    .option('--spread', 'spread requests with the same timestamp evenly until the next timestamp')
    .option('--concurrency <n>', 'closed loop: n requests at a time, whatever their timestamps')
}

export function withFleetFlags(command: Command): Command {
  return command
    .option('--aggregated <n>', 'aggregated workers: prefill and decode in one (default: 4)')
    .option('--prefill <n>', 'prefill workers')
    .option('--decode <n>', 'decode workers')
    .option(
      '--workers <group>',
      'a group of workers, may be repeated: mode:count, or mode:count:speed=0.25,num_gpu_blocks=8000,startup=30; for plan also cost=1.8',
      collect,
    )
    .option('--timing <file>', 'timing of the engine: a file of `baton profile`')
    .option(
      '--overhead <ms>',
      'time of a request outside the engine: ms, or ms,ms per 1,000 tokens, or a file of `baton profile`',
    )
}

export function withRunFlags(command: Command): Command {
  return command
    .option('--ttft <ms>', 'goal for the time to the first token', '5000')
    .option('--tpot <ms>', 'goal for the mean time per further token', '50')
    .option('--seed <n>', 'seed of all random choices', '0')
    .option('--json <file>', 'write the report as JSON; - prints it')
    .option('--html <file>', 'write the report as an HTML page')
    .option('--quiet', 'print no progress and no table')
}

export function withFaultFlags(command: Command): Command {
  return command
    .option(
      '--faults <faults>',
      'faults to inject, a file with a schedule, or counts: deaths=2,slow=1,partitions=1,breaks=2,loss=0.0001,event-loss=0.01,delay=0.5,jitter=2',
    )
    .option('--leaving <share>', 'share of clients that disconnect before the end', '0')
    .option('--check', 'check every token, and that nothing is left at the end')
    .option('--kv-hand-over', 'simulate KV transfer as offers and pulls, not only as a delay')
}
