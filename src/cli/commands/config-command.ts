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
      value: asJson ? value : shownValue(option, value),
      source,
      from: source === 'default' ? 'default' : writtenAs,
    }
  })
  const others: readonly Row[] = router.map(({ path, value, from }) => ({
    option: `router.${path}`,
    flag: null,
    value,
    source: from === 'default' ? 'default' : 'file',
    from,
  }))
  if (asJson) {
    console.log(JSON.stringify([...rows, ...others], null, 2))
    return
  }
  printRows(rows)
  console.log('\nother options of the router, from the file of --router-config:\n')
  printRows(others)
}

function printRows(rows: readonly Row[]): void {
  const cells = rows.map(({ flag, option, value, from }) => [
    flag ?? option.replace('router.', ''),
    value === null ? '-' : String(value),
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
