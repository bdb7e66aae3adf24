/**
 * The command line of a program in `bench/`. `--help` prints the comment at the top of the program and its options; what
 * it does not know ends it with one sentence.
 */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parseArgs } from 'node:util'
import type { ParseArgsConfig } from 'node:util'

/** Parses the process's arguments as `parseArgs` does; ends the process with code 0 after `--help`, 2 after an error. */
export function readOptions<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  const options = { ...config.options, help: { type: 'boolean', short: 'h' } } as const
  const program = process.argv[1] ?? ''
  try {
    const parsed = parseArgs({ ...config, options })
    const { help } = parsed.values as { readonly help?: boolean }
    if (help !== true) return parsed as ReturnType<typeof parseArgs<T>>
  } catch (error) {
    console.error(
      `${basename(program)}: ${(error as Error).message}; --help shows what it measures and its options`,
    )
    process.exit(2)
  }
  console.log(helpOf(readFileSync(program, 'utf8'), options))
  process.exit(0)
}

function helpOf(source: string, options: NonNullable<ParseArgsConfig['options']>): string {
  const comment = /^(?:#!.*\n)?\/\*\*\n(.*?)\n \*\//s.exec(source)?.[1] ?? ''
  const about = comment.replaceAll(/^ \* ?/gm, '')
  const lines = Object.entries(options).map(([name, option]) => {
    const value = option.type === 'boolean' ? '' : ' VALUE'
    const before = option.default === undefined || option.default === false ? '' : option.default
    return `  --${name}${value}${before === '' ? '' : ` (default: ${String(before)})`}`
  })
  return [about, 'Options:', ...lines].filter((text) => text !== '').join('\n')
}
