/**
 * `baton config`: what is in force, and where each value came from.
 */
import { flagOf } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { serveConfig } from './serve-config.ts'

export function printConfig(options: readonly ResolvedOption[], asJson: boolean): void {
  const config: Readonly<Record<string, string | number | boolean | null>> = {
    ...serveConfig(options),
  }
  const rows = options.map(({ option, source, writtenAs }) => ({
    option: option.key,
    flag: flagOf(option),
    value: option.isSecret === true ? hidden(config[option.key]) : (config[option.key] ?? null),
    source,
    from: source === 'default' ? 'default' : writtenAs,
  }))
  if (asJson) {
    console.log(JSON.stringify(rows, null, 2))
    return
  }
  const shown = rows.map((row) => [
    row.flag,
    row.value === null ? '-' : String(row.value),
    row.from,
  ])
  const width = (column: number): number =>
    Math.max(...shown.map((row) => row[column]?.length ?? 0))
  const [flagWidth, valueWidth] = [width(0), Math.min(width(1), 60)]
  for (const [flag = '', value = '', from = ''] of shown) {
    console.log(`${flag.padEnd(flagWidth)}  ${value.padEnd(valueWidth)}  ${from}`)
  }
}

function hidden(value: unknown): string | null {
  return value === null || value === undefined ? null : '(set)'
}
