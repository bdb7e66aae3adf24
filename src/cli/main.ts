#!/usr/bin/env node
/**
 * `baton`: reads the arguments, runs one command, and turns what went wrong into one line and an exit code.
 *
 * Exit codes: 0 ended as asked, 1 failed, 2 the arguments or the configuration are wrong, 70 ended in haste.
 */
import { Command, CommanderError, Option } from 'commander'
import { BatonError } from '../base/index.ts'
import { EXIT_FAILED, EXIT_MISUSED } from '../host/index.ts'
import { serverUrl } from './ask-server.ts'
import { BOOSTR_EXAMPLE, BOOSTR_ROLES, describeBoostr, runBoostr } from './boostr-command.ts'
import { runChat } from './chat-command.ts'
import { printConfig } from './config-command.ts'
import { EXPLAIN_HELP, runExplain } from './explain-command.ts'
import { runFrontendOnly } from './frontend-command.ts'
import { GROUPS_OF, OPTION_TABLE, flagOf, variableOf } from './option-table.ts'
import type { OptionSpec } from './option-table.ts'
import { resolveConfig } from './resolve-config.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { runServe } from './serve-command.ts'
import { runWorker } from './worker-command.ts'
import { BATON_VERSION } from './version.ts'

const SERVE_EXAMPLES = `
Examples:
  baton serve                                  one prefill and one decode worker with the model that ships with Baton
  baton serve --prefill 2 --decode 2           two of each
  baton serve --aggregated 2                   two workers that do both
  baton serve --model llama-3.2-1b.gguf        any GGUF file
  baton serve --engine sim --model ./hf-model  simulated tokens at a real pace, with the model's own tokenizer
  BATON_PORT=9000 baton serve                  every option is also a variable, and a key of baton.yaml

Each value comes from: flag > environment > config file > default. 'baton config' shows what is in force.`

const WORKER_EXAMPLES = `
Examples:
  baton worker --mode prefill --discovery-dir /srv/baton/fleet
  baton worker --mode decode  --discovery-dir /srv/baton/fleet --model model.gguf`

type Flags = Readonly<Record<string, unknown>>

/** Absent: the options of every command. */
function withOptions(command: Command, groups?: readonly string[]): Command {
  for (const option of OPTION_TABLE.filter(({ group }) => groups?.includes(group) !== false)) {
    command.addOption(commanderOption(option))
  }
  return command.option(
    '--config <file>',
    'options as YAML (default: baton.yaml, when there is one)',
  )
}

function commanderOption(option: OptionSpec): Option {
  const standard =
    option.default === null || option.default === false
      ? ''
      : ` (default: ${String(option.default)})`
  const names = option.value === '' ? flagOf(option) : `${flagOf(option)} ${option.value}`
  return new Option(names, `${option.help}${standard} [${variableOf(option)}]`)
}

function resolved(flags: Flags): readonly ResolvedOption[] {
  return resolveConfig({
    flags,
    environment: process.env,
    file: flags['config'] as string | undefined,
  })
}

function program(exit: (code: number) => void): Command {
  const root = new Command('baton')
    .description('Disaggregated LLM serving: prefill and decode on different workers.')
    .version(BATON_VERSION)
    .exitOverride()
    .configureOutput({
      outputError: (message, write) => write(message.replace(/^error: /, 'baton: ')),
    })
  withOptions(
    root.command('serve').description('frontend and workers on this machine'),
    GROUPS_OF.serve,
  )
    .addHelpText('after', SERVE_EXAMPLES)
    .action(async (flags: Flags) => exit(await runServe(resolved(flags))))
  withOptions(root.command('worker').description('one worker that joins a fleet'), GROUPS_OF.worker)
    .option('--mode <mode>', 'agg, prefill or decode', 'agg')
    .addHelpText('after', WORKER_EXAMPLES)
    .action(async (flags: Flags) => exit(await runWorker(resolved(flags), String(flags['mode']))))
  withOptions(
    root
      .command('frontend')
      .description('a frontend for workers that are started elsewhere (needs --discovery-dir)'),
    GROUPS_OF.frontend,
  ).action(async (flags: Flags) => exit(await runFrontendOnly(resolved(flags))))
  withOptions(
    root.command('config').description('what is in force, and where each value came from'),
  )
    .option('--json', 'as JSON')
    .action((flags: Flags) => printConfig(resolved(flags), flags['json'] === true))
  root
    .command('chat')
    .description('talk to a running server')
    .option('--url <url>', 'the server', process.env['BATON_URL'] ?? 'http://127.0.0.1:8000')
    .option('--model <name>', 'model name (default: the first that the server lists)')
    .option('--system <text>', 'system message')
    .option('--max-tokens <n>', 'tokens per answer', '512')
    .option('--temperature <x>', "0 answers the same each time (default: the server's)")
    .action(async (flags: Flags) => exit(await runChat(flags)))
  root
    .command('explain <requestId>')
    .description('why a request ran where it ran')
    .option('--url <url>', 'the server', process.env['BATON_URL'] ?? 'http://127.0.0.1:8000')
    .option('--json', 'as JSON')
    .addHelpText('after', EXPLAIN_HELP)
    .action(async (requestId: string, flags: Flags) =>
      exit(await runExplain(requestId, serverUrl(flags['url']), flags['json'] === true)),
    )
  const boostr = root
    .command('boostr')
    .description('one role of a fleet that speaks the dialect boostr (tags 10 and 30 to 36)')
    .addHelpText('after', BOOSTR_EXAMPLE)
  for (const role of BOOSTR_ROLES) {
    withOptions(describeBoostr(boostr.command(role), role), GROUPS_OF.boostr).action(
      async (flags: Flags) => exit(await runBoostr(role, flags, resolved(flags))),
    )
  }
  return root
}

async function main(): Promise<number> {
  let exitCode = 0
  try {
    await program((code) => {
      exitCode = code
    }).parseAsync(process.argv)
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_MISUSED
    const failure = BatonError.from(error)
    console.error(`baton: ${failure.message}`)
    if (failure.code === 'runtime.internal') console.error(failure.cause ?? failure)
    const isMisused =
      failure.code === 'config.invalid' || failure.code === 'request.invalid_argument'
    return isMisused ? EXIT_MISUSED : EXIT_FAILED
  }
}

// Who reads what is printed may leave (`baton serve | head`); a server goes on.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
process.exitCode = await main()
