/**
 * Validates the configuration that an engine reports at its start. Frontends size queues and prompts by it, so a
 * worker with an implausible one is not registered.
 */
import { messageOf } from '../base/index.ts'
import {
  BLOCK_TOKENS_MAX,
  enginePaceFault,
  isModelName,
  NAME_CHARACTERS_MAX,
} from '../request/index.ts'
import type { EngineConfig } from '../request/index.ts'
import { payloadFault } from './plain-payload.ts'
import { quoted } from './shown.ts'

const POSITIVE = [
  'contextLength',
  'kvCacheBlockSize',
  'totalKvBlocks',
  'maxNumSeqs',
  'maxNumBatchedTokens',
  'dataParallelSize',
  'embeddingLength',
] as const satisfies readonly (keyof EngineConfig)[]

const TEXTS = [
  'bootstrapHost',
  'modelPath',
  'textDigest',
] as const satisfies readonly (keyof EngineConfig)[]

const LISTS = [
  'modelAliases',
  'loraAdapters',
  'features',
] as const satisfies readonly (keyof EngineConfig)[]

/** Half of the largest card that a frontend reads. */
const CONFIG_CHARACTERS_MAX = 2 ** 19
/** Each rank is a row in the table of every router. */
const RANKS_MAX = 4096
const START_RANK_MAX = 65_535

interface ConfigFault {
  /** `config`: the whole. */
  readonly field: string
  readonly detail: string
}

/** The first implausible field, or null. Does not throw, whatever the engine has returned. */
export function engineConfigFault(config: EngineConfig): ConfigFault | null {
  if (typeof config !== 'object' || config === null) {
    return { field: 'model', detail: 'the engine config is not a record' }
  }
  try {
    return plainFault(config) ?? knownFieldFault(config) ?? cardFault(config)
  } catch (thrown) {
    return {
      field: 'config',
      detail: `the engine config cannot be read: ${messageOf(thrown)}; return a plain record`,
    }
  }
}

/** The whole config becomes a part of the card, which is sent as JSON: also fields that Baton does not know. */
function plainFault(config: EngineConfig): ConfigFault | null {
  for (const field of Object.keys(config)) {
    const detail = unsendable(config as unknown as Readonly<Record<string, unknown>>, field)
    if (detail !== null)
      return { field, detail: `${detail}; it must be a value that JSON can have` }
  }
  return null
}

function unsendable(config: Readonly<Record<string, unknown>>, field: string): string | null {
  try {
    return payloadFault(config[field], field)
  } catch (thrown) {
    return `${field} cannot be read: ${messageOf(thrown)}`
  }
}

function knownFieldFault(config: EngineConfig): ConfigFault | null {
  for (const field of ['model', 'servedModelName'] as const) {
    const value = config[field]
    if (!isModelName(value) && (field === 'model' || value !== undefined)) {
      return {
        field,
        detail: `${field} is ${quoted(value)}: expected one line of text, at most ${NAME_CHARACTERS_MAX} characters`,
      }
    }
  }
  for (const field of POSITIVE) {
    const value = config[field]
    if (value !== undefined && !(isWhole(value) && value > 0)) {
      return { field, detail: `${field} is ${quoted(value)}: expected a whole number above 0` }
    }
  }
  const { kvCacheBlockSize = 1 } = config
  if (kvCacheBlockSize > BLOCK_TOKENS_MAX) {
    return {
      field: 'kvCacheBlockSize',
      detail: `kvCacheBlockSize is ${kvCacheBlockSize}: expected at most ${BLOCK_TOKENS_MAX}`,
    }
  }
  const { dataParallelSize: ranks = 1, dataParallelStartRank: start = 0 } = config
  if (ranks > RANKS_MAX) {
    return {
      field: 'dataParallelSize',
      detail: `dataParallelSize is ${ranks}: expected at most ${RANKS_MAX}`,
    }
  }
  if (!(isWhole(start) && start >= 0 && start <= START_RANK_MAX)) {
    return {
      field: 'dataParallelStartRank',
      detail: `dataParallelStartRank is ${quoted(start)}: expected 0 to ${START_RANK_MAX}`,
    }
  }
  const port = config.bootstrapPort
  if (port !== undefined && !(isWhole(port) && port > 0 && port < 65_536)) {
    return { field: 'bootstrapPort', detail: `bootstrapPort is ${quoted(port)}` }
  }
  const paceFault = config.pace === undefined ? null : enginePaceFault(config.pace)
  if (paceFault !== null) return { field: 'pace', detail: `pace: ${paceFault}` }
  for (const field of TEXTS) {
    if (config[field] !== undefined && !isName(config[field])) {
      return { field, detail: `${field} is not a name` }
    }
  }
  for (const field of LISTS) {
    const list: unknown = config[field]
    if (list !== undefined && !(Array.isArray(list) && list.every(isModelName))) {
      return { field, detail: `${field} is not a list of names` }
    }
  }
  const { runtimeData = {} } = config
  if (typeof runtimeData !== 'object' || runtimeData === null || Array.isArray(runtimeData)) {
    return { field: 'runtimeData', detail: 'runtimeData is not a record' }
  }
  return null
}

function cardFault(config: EngineConfig): ConfigFault | null {
  const { length } = JSON.stringify(config)
  return length > CONFIG_CHARACTERS_MAX
    ? { field: 'runtimeData', detail: `the engine config has ${length} characters as JSON` }
    : null
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value)
}
