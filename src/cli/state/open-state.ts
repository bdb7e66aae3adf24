/**
 * Opens the store of responses and conversations that `--state` names: in memory, in a SQLite file that
 * survives restarts and is shared by several frontends, or none.
 */
import { createRequire } from 'node:module'
import { BatonError } from '../../base/index.ts'
import { MemoryStateStore } from '../../frontend/index.ts'
import type { StateStore } from '../../frontend/index.ts'
import { osClock } from '../../os/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { SqliteStateStore } from './sqlite-state.ts'
import type { SqliteModule } from './sqlite-state.ts'

const BYTES_MAX = 64 * 1024 * 1024

/** Undefined: nothing is stored. Several frontends do not share memory, so they store only in a file. */
export function openState(
  config: Pick<ServeConfig, 'state' | 'stateTtlSeconds' | 'frontends'>,
): StateStore | undefined {
  const { state, frontends } = config
  const ttlMs = config.stateTtlSeconds * 1000
  const where = state ?? (frontends > 1 ? 'off' : 'memory')
  if (where === 'off') return undefined
  if (where === 'memory') {
    return new MemoryStateStore({ clock: osClock, ttlMs, bytesMax: BYTES_MAX })
  }
  const file = /^sqlite:(.+)$/.exec(where)?.[1]
  if (file === undefined) throw invalid('expected memory, off or sqlite:<file>')
  try {
    return new SqliteStateStore(sqliteModule(), {
      file,
      clock: osClock,
      ttlMs,
      bytesMax: BYTES_MAX,
    })
  } catch (cause) {
    if (cause instanceof BatonError) throw cause
    throw invalid(`${file} cannot be opened: ${String(cause)}`, cause)
  }
}

function sqliteModule(): SqliteModule {
  try {
    return createRequire(import.meta.url)('node:sqlite') as SqliteModule
  } catch (cause) {
    throw invalid(`sqlite needs Node 22.5 or later, this is ${process.version}`, cause)
  }
}

function invalid(what: string, cause?: unknown): BatonError {
  return new BatonError('config.invalid', `--state is invalid: ${what}`, { cause })
}
