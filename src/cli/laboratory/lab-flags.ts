/**
 * The flags of the laboratory's commands. Those of router and simulated engine are the server's own (`option-table.ts`).
 */
import type { Command } from 'commander'

/** As commander gives them: what a flag was told, or that it is there. */
export type Flags = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/** `--api-key`, or the variable that Baton's other commands take. */
export function apiKeyOf(flags: Flags): { readonly apiKey?: string } {
  const key = flags['apiKey'] ?? process.env['BATON_API_KEY']
  return typeof key === 'string' && key !== '' ? { apiKey: key } : {}
}

export function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value]
}

export function withTraceFlags(command: Command): Command {
  return command
    .option(
      '--format <name>',
      'auto, mooncake, agentic or dynamo (of Dynamo), log (of Baton) or csv',
      'auto',
    )
    .option('--block-size <tokens>', "tokens per id of the trace's prompts (default: 512)")
    .option('--limit <n>', 'only the first so many requests')
    .option('--speedup <x>', 'arrivals come so much faster')
    .option('--spread', 'requests of one timestamp are spread evenly up to the next one')
    .option('--concurrency <n>', 'closed loop: so many requests at once, whatever their times')
}

export function withFleetFlags(command: Command): Command {
  return command
    .option('--aggregated <n>', 'workers that do both (default: 4)')
    .option('--prefill <n>', 'prefill workers')
    .option('--decode <n>', 'decode workers')
    .option(
      '--workers <group>',
      'a group of workers, may be repeated: mode:count, or mode:count:speed=0.25,num_gpu_blocks=8000,startup=30',
      collect,
      [],
    )
    .option('--timing <file>', 'how long the engine computes: a file of `baton profile`')
    .option(
      '--overhead <ms>',
      'what a request takes beside the engine: ms, or ms,ms per 1,000 tokens, or a file of `baton profile`',
    )
}

export function withRunFlags(command: Command): Command {
  return command
    .option('--ttft <ms>', 'goal for the time to the first token', '5000')
    .option('--tpot <ms>', 'goal for the mean time per further token', '50')
    .option('--seed <n>', 'of everything that is drawn', '0')
    .option('--json <file>', 'the report as JSON; - prints it')
    .option('--html <file>', 'the report as a page')
    .option('--quiet', 'no progress, no table')
}

export function withFaultFlags(command: Command): Command {
  return command
    .option(
      '--faults <faults>',
      'a file with a schedule, or how many of each: deaths=2,slow=1,partitions=1,breaks=2,loss=0.0001,event-loss=0.01,delay=0.5,jitter=2',
    )
    .option('--leaving <share>', 'share of clients that leave before the end', '0')
    .option('--check', 'look at every token and at what is left at the end')
    .option('--kv-hand-over', 'KV goes by offers and pulls, instead of being a time only')
}
