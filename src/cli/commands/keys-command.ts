/**
 * `baton keys`: makes, lists and revokes the keys of a file. A key is printed once; the file has its hash.
 */
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { BatonError } from '../../base/index.ts'
import { createKey, keysText, readKeys } from '../../host/index.ts'
import type { KeyEntry } from '../../host/index.ts'

export type KeyFlags = Readonly<Record<string, string | boolean | undefined>>

const DAY_MS = 86_400_000

export function addKey(flags: KeyFlags, now = new Date()): void {
  const path = fileOf(flags)
  const keys = existsSync(path) ? readKeys(path) : []
  const tenant = String(flags['tenant'] ?? '').trim()
  if (tenant === '') throw new BatonError('config.invalid', '--tenant: must be given')
  const days = numberOf(flags, 'expiresDays')
  const { text, entry } = createKey(
    {
      tenant,
      ...weightOf(flags),
      ...listOf(flags, 'models'),
      ...limit(flags, 'rate', 'requestsPerMinute'),
      ...limit(flags, 'budgetTokens', 'tokensPerMinute'),
      ...limit(flags, 'concurrency', 'concurrency'),
      ...limit(flags, 'priorityMax', 'priorityMax', 0),
      ...(days === null
        ? {}
        : { expiresAt: new Date(now.getTime() + days * DAY_MS).toISOString() }),
      ...(flags['operator'] === true ? { mayOperate: true } : {}),
      ...(flags['routing'] === true ? { mayRoute: true } : {}),
      ...(flags['sharedCache'] === true ? { sharesCache: true } : {}),
    },
    now,
  )
  write(path, [...keys, entry])
  console.error(
    `key ${entry.id} of ${tenant} is in ${path}; this is the only time that it is shown:`,
  )
  console.log(text)
}

export function listKeys(flags: KeyFlags, now = new Date()): void {
  for (const key of readKeys(fileOf(flags))) {
    const { id, tenant, hash: _, createdAt: __, expiresAt, revokedAt, ...terms } = key
    const state = stateOf(revokedAt, expiresAt, now)
    console.log(`${id}  ${tenant}  ${state}  ${JSON.stringify({ ...terms, expiresAt })}`)
  }
}

export function revokeKey(id: string, flags: KeyFlags, now = new Date()): void {
  const path = fileOf(flags)
  const keys = readKeys(path)
  if (!keys.some((key) => key.id === id)) {
    throw new BatonError('config.invalid', `${path} has no key ${id}`)
  }
  const revokedAt = now.toISOString()
  write(
    path,
    keys.map((key) => (key.id === id ? { ...key, revokedAt: key.revokedAt ?? revokedAt } : key)),
  )
  console.log(`key ${id} is revoked`)
}

function stateOf(revokedAt: string | undefined, expiresAt: string | undefined, now: Date): string {
  if (revokedAt !== undefined) return 'revoked'
  return expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime() ? 'expired' : 'valid'
}

function fileOf(flags: KeyFlags): string {
  return String(flags['file'])
}

function numberOf(flags: KeyFlags, name: string, least = 1): number | null {
  const given = flags[name]
  if (given === undefined) return null
  const value = Number(given)
  if (Number.isSafeInteger(value) && value >= least) return value
  const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  throw new BatonError('config.invalid', `--${flag}: must be a whole number of at least ${least}`)
}

function limit<Name extends string>(
  flags: KeyFlags,
  flag: string,
  name: Name,
  least = 1,
): Partial<Record<Name, number>> {
  const value = numberOf(flags, flag, least)
  return value === null ? {} : ({ [name]: value } as Partial<Record<Name, number>>)
}

function weightOf(flags: KeyFlags): { weight?: number } {
  const given = flags['weight']
  if (given === undefined) return {}
  const weight = Number(given)
  if (weight >= 0.01 && weight <= 1000) return { weight }
  throw new BatonError(
    'config.invalid',
    `--weight: ${String(given)} is invalid: expected a number from 0.01 to 1000`,
  )
}

function listOf(flags: KeyFlags, name: 'models'): { models?: string[] } {
  const given = flags[name]
  if (given === undefined) return {}
  const names = String(given)
    .split(',')
    .map((each) => each.trim())
  if (names.every((each) => each !== '')) return { models: names }
  throw new BatonError('config.invalid', `--${name}: must be names with commas between them`)
}

/** The file is replaced atomically, and only its owner may read it. */
function write(path: string, keys: readonly KeyEntry[]): void {
  const next = `${path}.${process.pid}.tmp`
  try {
    writeFileSync(next, keysText(keys), { mode: 0o600 })
    renameSync(next, path)
  } catch (error) {
    rmSync(next, { force: true })
    const { code = 'unknown error' } = error as NodeJS.ErrnoException
    throw new BatonError('config.invalid', `--file: ${path} cannot be written (${code})`)
  }
}
