/**
 * `--engine ./mine.js`: loads an engine from a user's module.
 *
 * The default export (or the only export) is a function that makes an engine, `(options) => Engine`, or a class
 * whose constructor takes the options. It receives `UserEngineOptions`. The result is checked before anything
 * else is started.
 */
import { basename, resolve } from 'node:path'
import { BatonError } from '../../base/index.ts'
import type { Engine, UserEngineOptions } from '../../engine/index.ts'
import { createLogger } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import type { DisaggregationMode, EngineConfig } from '../../request/index.ts'
import { surviveStrayErrors } from '../guard/stray-errors.ts'
import { firstLineOf } from '../options/first-line.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { importUserModule } from '../options/user-module.ts'

const METHODS = ['start', 'generate', 'cleanup'] as const satisfies readonly (keyof Engine)[]

export async function loadUserEngine(
  config: ServeConfig,
  mode: DisaggregationMode,
): Promise<Engine> {
  const { engine: written, servedModelName, contextLength } = config
  const options: UserEngineOptions = {
    mode,
    modelPath: config.model,
    sequences: config.sequences,
    args: argsOf(config.engineArgs),
    clock: osClock,
    ...(servedModelName === null ? {} : { servedModelName }),
    ...(contextLength === null ? {} : { contextLength }),
  }
  surviveStrayErrors(resolve(written), 'engine', createLogger(config.logLevel))
  const make = await factoryOf(written)
  const engine = await called(written, make, options)
  for (const method of METHODS) {
    if (typeof engine?.[method] !== 'function') {
      throw wrong(
        written,
        `the object that it returns is not an engine: method '${method}' is missing`,
      )
    }
  }
  return engine
}

/** The display name of the engine: the name of the module. */
export function userEngineName(written: string): string {
  return basename(written).replace(/\.[^.]+$/, '')
}

/**
 * Values of flags take precedence over the engine's own description. The model's path is set even if the engine
 * does not need it, because the tokenizer is read from there.
 */
export function describedBy(config: ServeConfig): (engine: EngineConfig) => EngineConfig {
  const { model, servedModelName, contextLength } = config
  return (engine) => ({
    ...engine,
    modelPath: engine.modelPath ?? model,
    ...(servedModelName === null ? {} : { servedModelName }),
    ...(contextLength === null
      ? {}
      : { contextLength: Math.min(contextLength, engine.contextLength ?? contextLength) }),
  })
}

type Factory = (options: UserEngineOptions) => Engine | Promise<Engine>

async function factoryOf(written: string): Promise<Factory> {
  const loaded = await importUserModule(written, `--engine ${written}`)
  const exported = Object.values(loaded)
  const made = loaded['default'] ?? (exported.length === 1 ? exported[0] : undefined)
  if (typeof made !== 'function') {
    throw wrong(
      written,
      'its default export is neither a function that returns an engine nor a class',
    )
  }
  if (!/^class\b/.test(Function.prototype.toString.call(made))) return made as Factory
  const Built = made as new (options: UserEngineOptions) => Engine
  return (options) => new Built(options)
}

async function called(written: string, make: Factory, options: UserEngineOptions): Promise<Engine> {
  try {
    return await make(options)
  } catch (thrown) {
    // An engine may report invalid arguments with a BatonError.
    if (thrown instanceof BatonError) throw thrown
    throw wrong(written, `it failed to make an engine: ${firstLineOf(thrown)}`, thrown)
  }
}

function argsOf(written: string | null): Readonly<Record<string, unknown>> {
  if (written === null) return {}
  try {
    const args: unknown = JSON.parse(written)
    if (typeof args === 'object' && args !== null && !Array.isArray(args)) return { ...args }
  } catch {
    // The error is thrown below.
  }
  throw new BatonError('config.invalid', '--engine-args is invalid: expected a JSON object')
}

function wrong(written: string, what: string, cause?: unknown): BatonError {
  return new BatonError('config.invalid', `--engine ${written}: ${what}`, { cause })
}
