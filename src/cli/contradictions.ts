/**
 * Options that each make sense, but not together. What would have no effect is refused, not ignored.
 */
import { BatonError } from '../base/index.ts'
import { flagOf } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'

/** Throws `config.invalid` in one line that names both options as the user wrote them. */
export function refuseContradictions(options: readonly ResolvedOption[]): void {
  const valueOf = (key: string): unknown => optionOf(options, key)?.value
  const named = (key: string): string => optionOf(options, key)?.writtenAs ?? key
  if (valueOf('gpuLayers') !== 0 && valueOf('gpu') === 'off') {
    throw contradiction(`${named('gpuLayers')} has no effect without --gpu: add --gpu auto`)
  }
  if (valueOf('inProcess') === true && valueOf('discoveryDir') !== null) {
    throw contradiction(
      `${named('inProcess')} and ${named('discoveryDir')} contradict each other: in one process nobody looks into a folder`,
    )
  }
  if (valueOf('enforceDisagg') === true && valueOf('discoveryDir') === null) {
    const isAggregated = Number(valueOf('aggregated') ?? 0) > 0
    if (isAggregated || valueOf('prefill') === 0) {
      throw contradiction(
        `${named('enforceDisagg')} and ${named(isAggregated ? 'aggregated' : 'prefill')} contradict each other: without a prefill worker every request would be refused`,
      )
    }
  }
  refuseOtherEngines(options)
}

/** A flag was typed for this run; a variable or a config file may serve several. */
function refuseOtherEngines(options: readonly ResolvedOption[]): void {
  const engine = optionOf(options, 'engine')?.value
  const unused = engine === 'sim' ? 'llama.cpp engine' : 'simulated engine'
  const typed = options.find(({ option, source }) => option.group === unused && source === 'flag')
  if (typed === undefined) return
  const flag = flagOf(typed.option)
  const fitting = engine === 'sim' ? 'llamacpp' : 'sim'
  throw contradiction(
    `${flag} has no effect with --engine ${String(engine)}: it is for --engine ${fitting}`,
  )
}

function optionOf(options: readonly ResolvedOption[], key: string): ResolvedOption | undefined {
  return options.find(({ option }) => option.key === key)
}

function contradiction(message: string): BatonError {
  return new BatonError('config.invalid', message)
}
