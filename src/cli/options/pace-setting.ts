/**
 * `--engine-pace`: how long the engine computes, from a file of `baton profile` or from figures in the option.
 *
 * It is read before anything is started, so that the process that the user sees reports a wrong file.
 */
import { parse as parseYaml } from 'yaml'
import { BatonError, isRecord } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import { enginePaceFault } from '../../request/index.ts'
import type { EnginePace } from '../../request/index.ts'
import { firstLineOf } from './first-line.ts'

/** `written`: JSON, or the path of a JSON or YAML file. Throws `config.invalid` in one line. */
export function paceSetting(written: string | null): EnginePace | null {
  if (written === null) return null
  const isInline = written.trimStart().startsWith('{')
  const place = isInline ? '--engine-pace' : `--engine-pace ${written}`
  let value: unknown
  try {
    value = isInline ? JSON.parse(written) : parseYaml(readSmallFile(written))
  } catch (cause) {
    throw new BatonError('config.invalid', `${place}: ${firstLineOf(cause)}`, { cause })
  }
  // In a file of `baton profile` the pace is beside the curves.
  const pace = isRecord(value) && 'pace' in value ? value['pace'] : value
  const fault = enginePaceFault(pace)
  if (fault !== null) throw new BatonError('config.invalid', `${place}: ${fault}`)
  const { promptMs, promptTokenMs, stepMs, stepRequestMs, stepContextTokenMs } = pace as EnginePace
  return { promptMs, promptTokenMs, stepMs, stepRequestMs, stepContextTokenMs }
}
