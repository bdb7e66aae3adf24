/**
 * `--engine ./mine.js`: an engine that a user wrote, from a module of theirs.
 *
 * The default export (or the only one) makes an engine, `(options) => Engine`, or is a class whose constructor takes the options. What it is
 * given is `UserEngineOptions`; what it gives is looked at before anything else is started.
 */
import { existsSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { BatonError } from '../../base/index.ts'
import type { Engine, UserEngineOptions } from '../../engine/index.ts'
import { osClock } from '../../os/index.ts'
import type { DisaggregationMode, EngineConfig } from '../../request/index.ts'
import { firstLineOf } from '../options/first-line.ts'
import type { ServeConfig } from '../options/serve-config.ts'

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
  const make = await factoryOf(written)
  const engine = await called(written, make, options)
  for (const method of METHODS) {
    if (typeof engine?.[method] !== 'function') {
      throw wrong(written, `what it makes is not an engine: '${method}' is missing`)
    }
  }
  return engine
}

/** What people call the engine: the module's name. */
export function userEngineName(written: string): string {
  return basename(written).replace(/\.[^.]+$/, '')
}

/** What a flag says wins; the model's path is known even if the engine does not need it: the tokenizer is there. */
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
  const path = resolve(written)
  if (!existsSync(path)) throw wrong(written, 'there is no such file')
  let loaded: Readonly<Record<string, unknown>>
  try {
    loaded = (await import(pathToFileURL(path).href)) as typeof loaded
  } catch (thrown) {
    throw wrong(written, `it cannot be loaded: ${firstLineOf(thrown)}`, thrown)
  }
  const exported = Object.values(loaded)
  const made = loaded['default'] ?? (exported.length === 1 ? exported[0] : undefined)
  if (typeof made !== 'function') {
    throw wrong(written, 'its default export is not a function that makes an engine, or a class')
  }
  if (!/^class\b/.test(Function.prototype.toString.call(made))) return made as Factory
  const Built = made as new (options: UserEngineOptions) => Engine
  return (options) => new Built(options)
}

async function called(written: string, make: Factory, options: UserEngineOptions): Promise<Engine> {
  try {
    return await make(options)
  } catch (thrown) {
    // An engine may say in Baton's own words what is wrong with its arguments.
    if (thrown instanceof BatonError) throw thrown
    throw wrong(written, `it made no engine: ${firstLineOf(thrown)}`, thrown)
  }
}

function argsOf(written: string | null): Readonly<Record<string, unknown>> {
  if (written === null) return {}
  try {
    const args: unknown = JSON.parse(written)
    if (typeof args === 'object' && args !== null && !Array.isArray(args)) return { ...args }
  } catch {
    // Said below.
  }
  throw new BatonError('config.invalid', '--engine-args is invalid: expected a JSON object')
}

function wrong(written: string, what: string, cause?: unknown): BatonError {
  return new BatonError('config.invalid', `--engine ${written}: ${what}`, { cause })
}
