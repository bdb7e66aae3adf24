#!/usr/bin/env node
/**
 * `baton`: parses the arguments, runs one command, and turns an error into one line and an exit code.
 *
 * Each command's modules are loaded when it runs, so that `baton --help` does not wait for a server's modules.
 *
 * Exit codes: 0 ended as asked, 1 failed, 2 the arguments or the configuration are wrong, 70 forced exit.
 */
import { sayLimit } from './guard/last-words.ts'
import { outliveTerminal } from './guard/closed-terminal.ts'
import { outliveOutput, outputFault } from './guard/lost-output.ts'
import { fileURLToPath } from 'node:url'
import { Command, CommanderError, Option } from 'commander'
import { BatonError } from '../base/index.ts'
import {
  boundOldGeneration,
  boundYoungGeneration,
  compileSooner,
  keepRequestsYoung,
} from '../os/index.ts'
import { EXIT_FAILED, EXIT_MISUSED, exitCodeOf } from '../host/index.ts'
import { serverOption, serverUrl } from './commands/ask-server.ts'
import type { KeyFlags } from './commands/keys-command.ts'
import { BOOSTR_EXAMPLE, BOOSTR_ROLES, describeBoostr } from './commands/boostr-flags.ts'
import { addLaboratory } from './laboratory/lab-commands.ts'
import { addOperate } from './operate/operate-commands.ts'
import { nameAsWritten } from './options/as-written.ts'
import { GROUPS_OF, headingOf, shownValue } from './options/option-spec.ts'
import type { OptionSpec } from './options/option-spec.ts'
import { OPTION_TABLE, flagOf, variableOf } from './options/option-table.ts'
import { resolveConfig } from './options/resolve-config.ts'
import type { ResolvedOption } from './options/resolve-config.ts'
import { BATON_VERSION } from './compose/version.ts'

const SERVE_EXAMPLES = `
Examples:
  baton serve                                  one prefill and one decode worker with the model that ships with Baton
  baton serve --prefill 2 --decode 2           two of each
  baton serve --aggregated 2                   two workers that do both
  baton serve --model llama-3.2-1b.gguf        any GGUF file
  baton serve --engine sim --model ./hf-model  simulated tokens at a real pace, with the model's own tokenizer
  baton serve --upstream http://a:8000,http://b:8000  vLLM, SGLang or llama-server that run already
  BATON_PORT=9000 baton serve                  every option is also a variable, and a key of baton.yaml

Each value comes from: flag > environment > config file > default. 'baton config' shows the effective configuration.`

const WORKER_EXAMPLES = `
Examples:
  baton worker --mode prefill --discovery file:/srv/baton/fleet
  baton worker --mode decode  --discovery file:/srv/baton/fleet --model model.gguf`

/** The program that a worker's process runs: this file, or the bundle made of it. */
const MAIN = fileURLToPath(import.meta.url)

const EXPLAIN_HELP = `
The id is the x-request-id of a reply (or the id of its chat completion).`

type Flags = Readonly<Record<string, unknown>>

/** Groups absent: the options of every command. */
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
  const fallback = option.default === false ? null : shownValue(option, option.default)
  const standard = fallback === null ? '' : ` (default: ${fallback})`
  const names = option.value === '' ? flagOf(option) : `${flagOf(option)} ${option.value}`
  return new Option(names, `${option.help}${standard} [${variableOf(option)}]`).helpGroup(
    `${headingOf(option.group)}:`,
  )
}

/** The options of the command that runs. */
let options: readonly ResolvedOption[] = []

function resolved(flags: Flags): readonly ResolvedOption[] {
  options = resolveConfig({
    flags,
    environment: process.env,
    file: flags['config'] as string | undefined,
  })
  return options
}

function addKeysCommand(root: Command): void {
  const keys = root
    .command('keys')
    .description('manage API keys in a file or in NATS, for baton serve --keys')
  const inFile = (command: Command): Command =>
    command.option(
      '--file <file>',
      'where the keys are stored: a file or nats://<host>:4222',
      'keys.json',
    )
  inFile(keys.command('add').description('make a key, which is printed once'))
    .requiredOption('--tenant <name>', 'tenant that the key belongs to')
    .option('--models <list>', 'models that the key may use, separated by commas (default: all)')
    .option('--rate <n>', 'requests per minute (default: no limit)')
    .option('--budget-tokens <n>', 'tokens per minute, prompt and output (default: no limit)')
    .option('--concurrency <n>', 'requests at a time (default: no limit)')
    .option(
      '--weight <n>',
      'share of its tenant in the capacity when several tenants compete (default: 1)',
    )
    .option('--priority-max <n>', 'highest priority that its requests may ask for (default: none)')
    .option('--ttft-target-ms <ms>', 'TTFT goal of its requests that set none')
    .option(
      '--itl-target-ms <ms>',
      'goal for the time between two tokens, for requests that set none',
    )
    .option('--expires-days <n>', 'days until the key expires (default: never)')
    .option('--operator', 'allow metrics, routing decisions and details, and setting thresholds')
    .option('--routing', 'allow choosing workers and other fields of nvext')
    .option('--shared-cache', 'share its cached prompt prefixes with other tenants, and use theirs')
    .action(async (flags: KeyFlags) => {
      const { addKey } = await import('./commands/keys-command.ts')
      await addKey(flags)
    })
  inFile(keys.command('list').description('list all keys, without the keys themselves')).action(
    async (flags: KeyFlags) => {
      const { listKeys } = await import('./commands/keys-command.ts')
      await listKeys(flags)
    },
  )
  inFile(keys.command('revoke <id>').description('revoke a key')).action(
    async (id: string, flags: KeyFlags) => {
      const { revokeKey } = await import('./commands/keys-command.ts')
      await revokeKey(id, flags)
    },
  )
}

const REMAINS_MS = 1_000

interface Ends {
  /** Ends a command whose output is its result. */
  readonly exit: (code: number) => void
  /** Ends a server. */
  readonly served: (code: number) => void
}

function program({ exit, served }: Ends): Command {
  const root = new Command('baton')
    .description('Disaggregated LLM serving: prefill and decode on different workers.')
    .version(BATON_VERSION)
    .exitOverride()
    .configureOutput({
      outputError: (message, write) => write(message.replace(/^error: /, 'baton: ')),
    })
  root.commandsGroup('Serve:')
  withOptions(
    root.command('serve').description('start frontend and workers on this machine'),
    GROUPS_OF.serve,
  )
    .addHelpText('after', SERVE_EXAMPLES)
    .action(async (flags: Flags) => {
      const { runServe } = await import('./commands/serve-command.ts')
      served(await runServe(resolved(flags), MAIN))
      endSoon()
    })
  withOptions(
    root.command('worker').description('start one worker that joins a fleet'),
    GROUPS_OF.worker,
  )
    .addHelpText('after', WORKER_EXAMPLES)
    .action(async (flags: Flags) => {
      const { runWorker } = await import('./commands/worker-command.ts')
      served(await runWorker(resolved(flags)))
    })
  withOptions(
    root
      .command('frontend')
      .description('start a frontend for workers that run elsewhere (needs --discovery)'),
    GROUPS_OF.frontend,
  ).action(async (flags: Flags) => {
    const { runFrontendOnly } = await import('./commands/frontend-command.ts')
    served(await runFrontendOnly(resolved(flags), MAIN))
    endSoon()
  })
  withOptions(
    root
      .command('config')
      .description('show the effective configuration and where each value came from'),
  )
    .option('--json', 'print JSON')
    .action(async (flags: Flags) => {
      const { printConfig } = await import('./commands/config-command.ts')
      printConfig(resolved(flags), flags['json'] === true)
    })
  root.commandsGroup('Use and observe:')
  root
    .command('chat')
    .description('chat with a running server')
    .addOption(serverOption())
    .option('--model <name>', 'model name (default: the first that the server lists)')
    .option('--system <text>', 'system message')
    .option('--max-tokens <n>', 'most tokens per answer', '512')
    .option(
      '--temperature <x>',
      "sampling temperature; 0 gives the same answer each time (default: the server's)",
    )
    .action(async (flags: Flags) => {
      const { runChat } = await import('./chat/chat-command.ts')
      exit(await runChat(flags))
    })
  root
    .command('explain <requestId>')
    .description('show why a request ran on its worker')
    .addOption(serverOption())
    .option('--json', 'print JSON')
    .addHelpText('after', EXPLAIN_HELP)
    .action(async (requestId: string, flags: Flags) => {
      const { runExplain } = await import('./commands/explain-command.ts')
      exit(await runExplain(requestId, serverUrl(flags['url']), flags['json'] === true))
    })
  addOperate(root, { exit, withOptions, resolved })
  root.commandsGroup('Administer:')
  root
    .command('roll')
    .description('restart the workers of a running fleet one by one, without losing a request')
    .addOption(serverOption('a frontend'))
    .option('--model <name>', 'only workers of this model')
    .option('--role <role>', 'only workers of this role: prefill, decode or aggregated')
    .option('--timeout-seconds <s>', 'how long to wait until a worker is replaced', '600')
    .option('--force', 'also restart a worker that is the only one of its role')
    .action(async (flags: Flags) => {
      const { rollFlags, runRoll } = await import('./commands/roll-command.ts')
      exit(await runRoll(rollFlags(flags, serverUrl(flags['url']))))
    })
  addKeysCommand(root)
  root.commandsGroup('Simulate and measure:')
  addLaboratory(root, { exit, main: MAIN, withOptions, resolved })
  root.commandsGroup('Other:').addHelpCommand(helpCommand())
  const boostr = root
    .command('boostr')
    .description(
      'run a prefill worker, decode worker or router that speaks the wire protocol of boostr',
    )
    .addHelpText('after', BOOSTR_EXAMPLE)
  for (const role of BOOSTR_ROLES) {
    withOptions(describeBoostr(boostr.command(role), role), GROUPS_OF.boostr).action(
      async (flags: Flags) => {
        const { runBoostr } = await import('./commands/boostr-command.ts')
        served(await runBoostr(role, flags, resolved(flags)))
        endSoon()
      },
    )
  }
  return root
}

function helpCommand(): Command {
  return new Command('help')
    .argument('[command]')
    .description('show the options of a command')
    .helpOption(false)
}

/**
 * A server has ended and closed everything, but a library or a user's module may have left something open that would keep
 * the process: the client of NATS leaves its socket open if it is closed while it waits for the server's first message.
 */
function endSoon(): void {
  setTimeout(() => process.exit(), REMAINS_MS).unref()
}

async function main(): Promise<number> {
  let exitCode = 0
  let isServer = false
  const failed = await run({
    exit: (code) => {
      exitCode = code
    },
    served: (code) => {
      exitCode = code
      isServer = true
    },
  })
  exitCode = failed ?? exitCode
  const fault = isServer ? null : await outputFault()
  if (fault === null) return exitCode
  console.error(`baton: ${fault}`)
  return exitCode === 0 ? EXIT_FAILED : exitCode
}

/** Runs the command of the arguments; the exit code when it did not end as asked, otherwise null. */
async function run(ends: Ends): Promise<number | null> {
  try {
    await program(ends).parseAsync(process.argv)
    return null
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_MISUSED
    if (sayLimit(error)) return EXIT_FAILED
    const failure = BatonError.from(error)
    console.error(`baton: ${nameAsWritten(failure.message, options)}`)
    if (failure.code === 'runtime.internal') console.error(failure.cause ?? failure)
    return exitCodeOf(failure)
  }
}

outliveOutput()
outliveTerminal()
keepRequestsYoung()
boundOldGeneration()
boundYoungGeneration()
compileSooner()
process.exitCode = await main()
