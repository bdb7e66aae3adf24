/**
 * Roles, flags and help of `baton boostr`.
 */
import type { Command } from 'commander'

export type BoostrRole = 'router' | 'prefill' | 'decode'

export const BOOSTR_ROLES: readonly BoostrRole[] = ['router', 'prefill', 'decode']

export const BOOSTR_EXAMPLE = `
Example, on one machine:
  baton boostr decode  --rank 2 --listen 127.0.0.1:9002 --accept 0 1
  baton boostr prefill --rank 1 --listen 127.0.0.1:9001 --accept 0 --decode-workers 2=127.0.0.1:9002
  baton boostr router  --rank 0 --prefill-workers 1=127.0.0.1:9001 --decode-workers 2=127.0.0.1:9002 --http 127.0.0.1:8080
  curl -d '{"prompt":"Once","max_tokens":20}' http://127.0.0.1:8080/v1/completions`

const DESCRIPTIONS = {
  router: 'receives HTTP requests and sends them through a prefill and a decode worker',
  prefill: 'computes prompts and sends their KV to decode workers',
  decode: 'receives the KV of prompts and generates tokens',
} as const

export function describeBoostr(command: Command, role: BoostrRole): Command {
  command
    .description(DESCRIPTIONS[role])
    .requiredOption('--rank <n>', 'number of this process in the fleet')
    .option(
      '--peers <kind>',
      'implementation of the peers: baton, or boostr when they are original boostr processes',
      'baton',
    )
    .option(
      '--max-kv-transfer-bytes <n>',
      'largest KV payload that is accepted',
      `${2 * 1024 ** 3}`,
    )
  if (role === 'router') {
    return command
      .requiredOption(
        '--prefill-workers <rank=address...>',
        'prefill workers, for example 1=10.0.0.1:9001',
      )
      .requiredOption('--decode-workers <rank=address...>', 'decode workers')
      .option('--http <address>', 'address of the HTTP port', '127.0.0.1:8080')
      .option('--max-in-flight <n>', 'requests at one worker at a time (original peers: 1)', '64')
      .option('--max-tokens <n>', 'largest max_tokens of a request', '131072')
  }
  command
    .option('--listen <address>', 'address on which other ranks connect', '127.0.0.1:0')
    .requiredOption('--accept <rank...>', 'ranks that may connect: routers, and prefill workers')
    .option('--max-kv-bytes <n>', 'KV that is held at a time; more is refused', `${4 * 1024 ** 3}`)
    .option(
      '--module <file>',
      'JavaScript module that computes the tokens (default: a toy without a model)',
    )
  if (role === 'decode') return command
  return command.requiredOption('--decode-workers <rank=address...>', 'decode workers')
}
