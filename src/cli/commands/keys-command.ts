/**
 * `baton keys`: makes, lists and revokes the keys in a file or in a bucket of NATS. A key is printed once; only
 * its hash is kept.
 */
import { BatonError } from '../../base/index.ts'
import { createKey } from '../../host/index.ts'
import type { KeyStore } from '../../host/index.ts'
import { GOAL_MAX_MS, isGoalMs } from '../../request/index.ts'
import { openKeyStore } from '../guard/open-keys.ts'

export type KeyFlags = Readonly<Record<string, string | boolean | undefined>>

const DAY_MS = 86_400_000

export async function addKey(flags: KeyFlags): Promise<void> {
  const now = new Date()
  const tenant = String(flags['tenant'] ?? '').trim()
  if (tenant === '')
    throw new BatonError('config.invalid', '--tenant is missing: give the name of the tenant')
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
      ...goal(flags, 'ttftTargetMs'),
      ...goal(flags, 'itlTargetMs'),
      ...(days === null
        ? {}
        : { expiresAt: new Date(now.getTime() + days * DAY_MS).toISOString() }),
      ...(flags['operator'] === true ? { mayOperate: true } : {}),
      ...(flags['routing'] === true ? { mayRoute: true } : {}),
      ...(flags['sharedCache'] === true ? { sharesCache: true } : {}),
    },
    now,
  )
  await inStore(flags, (store) => store.add(entry))
  console.error(
    `key ${entry.id} of ${tenant} is stored in ${placeOf(flags)}; the key itself is shown only now:`,
  )
  console.log(text)
}

export async function listKeys(flags: KeyFlags): Promise<void> {
  const now = new Date()
  for (const key of await inStore(flags, (store) => store.list())) {
    const { id, tenant, hash: _, createdAt: __, expiresAt, revokedAt, ...terms } = key
    const state = stateOf(revokedAt, expiresAt, now)
    console.log(`${id}  ${tenant}  ${state}  ${JSON.stringify({ ...terms, expiresAt })}`)
  }
}

export async function revokeKey(id: string, flags: KeyFlags): Promise<void> {
  const revokedAt = new Date().toISOString()
  const isThere = await inStore(flags, (store) =>
    store.change(id, (key) => ({ ...key, revokedAt: key.revokedAt ?? revokedAt })),
  )
  if (!isThere) throw new BatonError('config.invalid', `${placeOf(flags)} has no key ${id}`)
  console.log(`key ${id} is revoked`)
}

async function inStore<T>(flags: KeyFlags, work: (store: KeyStore) => Promise<T>): Promise<T> {
  const store = await openKeyStore(fileOf(flags))
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

function stateOf(revokedAt: string | undefined, expiresAt: string | undefined, now: Date): string {
  if (revokedAt !== undefined) return 'revoked'
  return expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime() ? 'expired' : 'valid'
}

function fileOf(flags: KeyFlags): string {
  return String(flags['file'])
}

/** For display: the address without its password. */
function placeOf(flags: KeyFlags): string {
  return fileOf(flags)
    .replace(/\/\/[^@/]*@/, '//')
    .replace(/\?.*$/, '')
}

function numberOf(flags: KeyFlags, name: string, least = 1): number | null {
  const given = flags[name]
  if (given === undefined) return null
  const value = Number(given)
  if (Number.isSafeInteger(value) && value >= least) return value
  throw new BatonError(
    'config.invalid',
    `--${flagOf(name)} is invalid: expected a whole number of at least ${least}`,
  )
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

function goal<Name extends string>(flags: KeyFlags, name: Name): Partial<Record<Name, number>> {
  const given = flags[name]
  if (given === undefined) return {}
  const value = Number(given)
  if (isGoalMs(value)) return { [name]: value } as Partial<Record<Name, number>>
  throw new BatonError(
    'config.invalid',
    `--${flagOf(name)} is invalid: expected milliseconds above 0 and at most ${GOAL_MAX_MS}`,
  )
}

const flagOf = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

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
  throw new BatonError('config.invalid', `--${name} is invalid: expected names separated by commas`)
}
