/** Names an option as the user gave it in errors of parts that get only its value. */
import { flagOf } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'

/** A flag at the start of the message becomes the variable, or the key of the configuration file, that was given. */
export function nameAsWritten(message: string, options: readonly ResolvedOption[]): string {
  const flag = /^--[a-z0-9-]+/.exec(message)?.[0]
  const given = options.find(({ option }) => flagOf(option) === flag)
  if (flag === undefined || given === undefined) return message
  return given.writtenAs + message.slice(flag.length)
}
