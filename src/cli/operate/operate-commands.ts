/**
 * The commands that inspect a running fleet: `top` and `doctor`.
 */
import type { Command } from 'commander'
import { BatonError } from '../../base/index.ts'
import { serverOption, serverUrl } from '../commands/ask-server.ts'
import { GROUPS_OF } from '../options/option-spec.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { FleetSource } from './fleet-source.ts'

type Flags = Readonly<Record<string, unknown>>

interface OperateParts {
  readonly exit: (code: number) => void
  readonly withOptions: (command: Command, groups?: readonly string[]) => Command
  readonly resolved: (flags: Flags) => readonly ResolvedOption[]
}

const TOP_EXAMPLES = `
Examples:
  baton top                                    the server on this machine
  baton top --url https://llm.example          another one; BATON_API_KEY holds the key of an operator
  baton top --discovery nats://hub:4222        the workers themselves, without a frontend
  baton top --once --json | jq .               one look, for scripts`

const DOCTOR_EXAMPLES = `
Examples:
  baton doctor                                 this machine and the server on it
  baton doctor --url https://llm.example       another one; BATON_API_KEY holds the key of an operator
  baton doctor --discovery file:/srv/baton     the workers themselves: can they be reached, do they agree

Exit code 1 when something is broken; warnings alone give 0.`

export function addOperate(root: Command, { exit, withOptions, resolved }: OperateParts): void {
  const looking = (name: string, text: string, examples: string): Command =>
    withOptions(
      root.command(name).description(text).addOption(serverOption()).option('--json', 'print JSON'),
      GROUPS_OF.looking,
    ).addHelpText('after', examples)
  const open = async (flags: Flags): Promise<FleetSource> => {
    const { discoverySource, serverSource } = await import('./fleet-source.ts')
    const { discovery } = flags
    return typeof discovery === 'string'
      ? await discoverySource(resolved(flags), discovery)
      : serverSource(serverUrl(flags['url']))
  }
  looking('top', 'show a running fleet, refreshed continuously (q ends it)', TOP_EXAMPLES)
    .option('--interval <s>', 'seconds between two refreshes', '1')
    .option('--once', 'print once and exit')
    .action(async (flags: Flags) => {
      const { runTop } = await import('./top-command.ts')
      const intervalMs = secondsOf(flags['interval']) * 1000
      const source = await open(flags)
      exit(
        await runTop({
          source,
          intervalMs,
          once: flags['once'] === true,
          json: flags['json'] === true,
        }),
      )
    })
  looking('doctor', 'find out what is wrong with a fleet, and what to do', DOCTOR_EXAMPLES).action(
    async (flags: Flags) => {
      const { runDoctor } = await import('./doctor-command.ts')
      const url = typeof flags['discovery'] === 'string' ? null : serverUrl(flags['url'])
      const { writtenFolders } = await import('./written-folders.ts')
      const folders = writtenFolders(resolved(flags))
      exit(await runDoctor({ open: () => open(flags), url, json: flags['json'] === true, folders }))
    },
  )
}

function secondsOf(given: unknown): number {
  const seconds = Number(given)
  if (seconds >= 0.1 && seconds <= 3600) return seconds
  throw new BatonError(
    'config.invalid',
    `--interval: ${String(given)} is invalid: expected seconds from 0.1 to 3600`,
  )
}
