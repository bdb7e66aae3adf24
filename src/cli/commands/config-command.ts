/**
 * `baton config`: the effective configuration, and where each value came from.
 */
import { describeDiscovery } from '../../discovery/index.ts'
import { shownValue } from '../options/option-spec.ts'
import { flagOf } from '../options/option-table.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { routerSettings } from '../options/router-settings.ts'
import { serveConfig } from '../options/serve-config.ts'

interface Row {
  readonly option: string
  readonly flag: string | null
  readonly value: string | number | boolean | null
  /** The value as a user would write it; null: there is none. */
  readonly shown: string | null
  readonly source: string
  readonly from: string
}

export function printConfig(given: readonly ResolvedOption[], asJson: boolean): void {
  const { options, rows: router } = routerSettings(given)
  const { sim: _sim, pace: _pace, discovery, ...values } = serveConfig(options)
  const config: Readonly<Record<string, Row['value']>> = {
    ...values,
    discovery: discovery === null ? null : describeDiscovery(discovery),
  }
  const rows: readonly Row[] = options.map(({ option, source, writtenAs }) => {
    const known = config[option.key] ?? null
    const value = option.isSecret === true ? hidden(known) : known
    return {
      option: option.key,
      flag: flagOf(option),
      value,
      shown: shownValue(option, value),
      source,
      from: source === 'default' ? 'default' : writtenAs,
    }
  })
  const others: readonly Row[] = router.map(({ path, value, from }) => ({
    option: `router.${path}`,
    flag: null,
    value,
    shown: value === null ? null : String(value),
    source: from === 'default' ? 'default' : 'file',
    from,
  }))
  if (asJson) {
    const values = [...rows, ...others].map(({ shown: _, ...row }) => row)
    console.log(JSON.stringify(values, null, 2))
    return
  }
  printRows(rows)
  console.log('\nother options of the router, from the file of --router-config:\n')
  printRows(others)
}

function printRows(rows: readonly Row[]): void {
  const cells = rows.map(({ flag, option, shown, from }) => [
    flag ?? option.replace('router.', ''),
    shown ?? '-',
    from,
  ])
  const width = (column: number): number =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0))
  const [nameWidth, valueWidth] = [width(0), Math.min(width(1), 60)]
  for (const [name = '', value = '', from = ''] of cells) {
    console.log(`${name.padEnd(nameWidth)}  ${value.padEnd(valueWidth)}  ${from}`)
  }
}

function hidden(value: Row['value']): string | null {
  return value === null ? null : '(set)'
}
