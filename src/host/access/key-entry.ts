/**
 * A stored key: its hash and what it allows. The key's text is shown only once, when it is made.
 */
import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import { GOAL_MAX_MS } from '../../request/index.ts'

const whole = z.int().min(1)
const goalMs = z.number().positive().max(GOAL_MAX_MS).optional()
const instant = z.iso.datetime({ offset: true })

const entrySchema = z.strictObject({
  id: z.string().regex(/^[a-z0-9]{8}$/),
  hash: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  // The tenant appears in logs, on terminals and before the separator in the cache salt.
  tenant: z
    .string()
    .trim()
    .min(1)
    .max(128)
    .regex(/^\P{Cc}*$/u, 'contains control characters'),
  weight: z.number().min(0.01).max(1000).optional(),
  createdAt: instant,
  expiresAt: instant.optional(),
  revokedAt: instant.optional(),
  models: z.array(z.string().min(1)).min(1).optional(),
  requestsPerMinute: whole.optional(),
  tokensPerMinute: whole.optional(),
  concurrency: whole.optional(),
  priorityMax: z.int().min(0).optional(),
  ttftTargetMs: goalMs,
  itlTargetMs: goalMs,
  mayOperate: z.boolean().optional(),
  mayRoute: z.boolean().optional(),
  sharesCache: z.boolean().optional(),
})

const fileSchema = z.strictObject({ keys: z.array(entrySchema) })

export type KeyEntry = z.infer<typeof entrySchema>

/** Throws `config.invalid` with the place of the fault; messages never contain a hash. */
export function parseKeys(text: string, source: string): readonly KeyEntry[] {
  const { keys } = parsed(fileSchema, text, source)
  const ids = new Set(keys.map(({ id }) => id))
  if (ids.size === keys.length) return keys
  throw new BatonError('config.invalid', `${source}: two keys have the same id`)
}

/** Parses one key. Throws like `parseKeys`. */
export function parseKey(text: string, source: string): KeyEntry {
  return parsed(entrySchema, text, source)
}

function parsed<T>(schema: z.ZodType<T>, text: string, source: string): T {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    throw new BatonError('config.invalid', `${source} is not JSON`)
  }
  const result = schema.safeParse(content)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const place = issue?.path.join('.') ?? ''
  throw new BatonError('config.invalid', `${source}: ${place}: ${issue?.message ?? 'is invalid'}`)
}

export function keysText(keys: readonly KeyEntry[]): string {
  return `${JSON.stringify({ keys }, null, 2)}\n`
}

type Terms = Omit<KeyEntry, 'id' | 'hash' | 'createdAt'>

/**
 * A new key: `text` is for its holder, `entry` is stored. Throws `config.invalid` for terms that `parseKeys` would
 * refuse.
 */
export function createKey(terms: Terms, now: Date): { text: string; entry: KeyEntry } {
  const id = randomBytes(5).toString('hex').slice(0, 8)
  const text = `baton_${id}_${randomBytes(32).toString('base64url')}`
  const hash = `sha256:${digestOf(text).toString('hex')}`
  const entry = { id, hash, createdAt: now.toISOString(), ...terms }
  return { text, entry: parseKey(JSON.stringify(entry), 'the new key') }
}

/** Always the same length, for a comparison in constant time. */
export function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
