/**
 * A store of responses and conversations in a SQLite file, which survives a restart and is shared by the
 * frontends of a machine.
 *
 * Expiry times are wall-clock times, because several processes use them.
 */
import type { Clock } from '../../base/index.ts'
import type { StateStore } from '../../frontend/index.ts'

interface Statement {
  get(...values: unknown[]): Record<string, unknown> | undefined
  run(...values: unknown[]): { readonly changes: number | bigint }
}

interface Database {
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}

/** The part of `node:sqlite` that is used. */
export interface SqliteModule {
  readonly DatabaseSync: new (file: string) => Database
}

interface SqliteStateOptions {
  readonly file: string
  readonly clock: Clock
  readonly ttlMs: number
  /** The limit for all stored texts, in UTF-8 bytes. */
  readonly bytesMax: number
}

/** The limit is checked once per this many writes. */
const SETS_PER_SWEEP = 64

export class SqliteStateStore implements StateStore {
  readonly #options: SqliteStateOptions
  readonly #database: Database
  readonly #get: Statement
  readonly #set: Statement
  readonly #delete: Statement
  readonly #expire: Statement
  readonly #bytes: Statement
  readonly #dropOldest: Statement
  #sets = 0

  constructor({ DatabaseSync }: SqliteModule, options: SqliteStateOptions) {
    this.#options = options
    const database = new DatabaseSync(options.file)
    database.exec('PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 2000;')
    database.exec(
      'CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, json TEXT NOT NULL, untilMs REAL NOT NULL)',
    )
    this.#database = database
    this.#get = database.prepare('SELECT json FROM state WHERE key = ? AND untilMs > ?')
    this.#set = database.prepare(
      'INSERT INTO state VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET json = excluded.json, untilMs = excluded.untilMs',
    )
    this.#delete = database.prepare('DELETE FROM state WHERE key = ?')
    this.#expire = database.prepare('DELETE FROM state WHERE untilMs <= ?')
    this.#bytes = database.prepare('SELECT coalesce(sum(length(json)), 0) AS bytes FROM state')
    this.#dropOldest = database.prepare(
      'DELETE FROM state WHERE key IN (SELECT key FROM state ORDER BY untilMs LIMIT 16)',
    )
    this.#sweep()
  }

  get(key: string): string | undefined {
    const json = this.#get.get(key, this.#options.clock.epochMs())?.['json']
    return typeof json === 'string' ? json : undefined
  }

  set(key: string, json: string): void {
    const { clock, ttlMs } = this.#options
    this.#set.run(key, json, clock.epochMs() + ttlMs)
    this.#sets += 1
    if (this.#sets % SETS_PER_SWEEP === 0) this.#sweep()
  }

  delete(key: string): boolean {
    return Number(this.#delete.run(key).changes) > 0
  }

  close(): void {
    this.#database.close()
  }

  #sweep(): void {
    this.#expire.run(this.#options.clock.epochMs())
    while (Number(this.#bytes.get()?.['bytes']) > this.#options.bytesMax) this.#dropOldest.run()
  }
}
