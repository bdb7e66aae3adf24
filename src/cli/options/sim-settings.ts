/**
 * The simulated engine's arguments: those of `--sim-args` in NVIDIA's names, and with precedence over them the
 * options that have a flag of their own.
 *
 * Flag > environment > config file > `--sim-args` > default. They are read before anything is started, so that
 * the process that the user sees reports a wrong argument.
 */
import { parse as parseYaml } from 'yaml'
import { BatonError } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import { flatMockArgs, mockEngineOptions } from '../../simengine/index.ts'
import type { MockEngineOptions } from '../../simengine/index.ts'
import { mockArgFiles } from '../../host/index.ts'
import { firstLineOf } from './first-line.ts'
import type { OptionKey } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'

/** Defaults of a server without `--sim-args`: small blocks, so that short prompts show the effect of prefix caching. */
const SERVED_DEFAULTS = { block_size: 16 } as const

/** The name of a flag's value among the arguments. */
const FLAGGED: Readonly<Partial<Record<OptionKey, string>>> = {
  sequences: 'max_num_seqs',
  simSpeedup: 'speedup_ratio',
  simBlockSize: 'block_size',
  simBlocks: 'num_gpu_blocks',
  simBatchedTokens: 'max_num_batched_tokens',
}

/** Throws `config.invalid` in one line that names the argument. `defaults`: without `--sim-args`. */
export function simSettings(
  given: readonly ResolvedOption[],
  defaults: Readonly<Record<string, unknown>> = SERVED_DEFAULTS,
): MockEngineOptions {
  const valueOf = (key: OptionKey): unknown => given.find(({ option }) => option.key === key)?.value
  const written = valueOf('simArgs') as string | null
  const read = written === null ? null : readSimArgs(written)
  const args = new Map<string, unknown>(
    Object.entries(read === null ? defaults : checked(written, () => flatMockArgs(read))),
  )
  for (const { option, value, source } of given) {
    const name = FLAGGED[option.key as OptionKey]
    if (name === undefined || value === null) continue
    if (source !== 'default' || written === null) args.set(name, value)
  }
  const options = checked(written, () => mockEngineOptions(Object.fromEntries(args), mockArgFiles))
  const isInstantaneous = args.get('speedup_ratio') === 0 && valueOf('simSpeedup') === 0
  return {
    ...options,
    seed: valueOf('simSeed') as number,
    ...(isInstantaneous ? { speedupRatio: 'instantaneous' } : {}),
  }
}

/** Reads inline JSON, or a JSON or YAML file. */
function readSimArgs(written: string): Readonly<Record<string, unknown>> {
  const args: unknown = checked(written, () =>
    isInline(written) ? JSON.parse(written) : parseYaml(readSmallFile(written)),
  )
  if (typeof args === 'object' && args !== null && !Array.isArray(args)) return { ...args }
  throw new BatonError('config.invalid', `${placeOf(written)}: expected an object`)
}

function checked<T>(written: string | null, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new BatonError('config.invalid', `${placeOf(written)}: ${firstLineOf(error)}`, {
      cause: error,
    })
  }
}

function placeOf(written: string | null): string {
  if (written === null) return '--engine sim'
  return isInline(written) ? '--sim-args' : `--sim-args ${written}`
}

function isInline(written: string): boolean {
  return written.trimStart().startsWith('{')
}
