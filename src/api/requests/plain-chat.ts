/**
 * A hand-written validator for the most common chat requests: text messages and the usual numbers. The schema remains
 * the reference for all other requests and for every refusal; `plain-chat.test.ts` checks that what is accepted here
 * is accepted by the schema with the same result.
 */
type Check = (value: unknown) => boolean

const ROLES = new Set<unknown>(['system', 'developer', 'user', 'assistant', 'tool', 'function'])
const MAX_U32 = 0xffffffff

const isBoolean: Check = (value) => typeof value === 'boolean'

const within =
  (min: number, max: number): Check =>
  (value) =>
    typeof value === 'number' && value >= min && value <= max

const integer =
  (min: number, max: number): Check =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max

const FIELDS: ReadonlyMap<string, Check> = new Map(
  Object.entries({
    model: (value) => typeof value === 'string' && value.trim() !== '',
    messages: (value) => Array.isArray(value) && value.length > 0 && value.every(isPlainMessage),
    stream: isBoolean,
    stream_options: (value) => hasOnly(value, STREAM_OPTIONS),
    max_tokens: integer(0, MAX_U32),
    max_completion_tokens: integer(0, MAX_U32),
    min_tokens: integer(0, MAX_U32),
    ignore_eos: isBoolean,
    n: integer(1, 128),
    temperature: within(0, 2),
    top_p: within(0, 1),
    min_p: within(0, 1),
    top_k: integer(-1, MAX_U32),
    seed: integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    frequency_penalty: within(-2, 2),
    presence_penalty: within(-2, 2),
    skip_special_tokens: isBoolean,
    add_generation_prompt: isBoolean,
  } satisfies Readonly<Record<string, Check>>),
)

const STREAM_OPTIONS: ReadonlyMap<string, Check> = new Map(
  Object.entries({
    include_usage: isBoolean,
    continuous_usage_stats: isBoolean,
    include_obfuscation: isBoolean,
  }),
)

const MESSAGE: ReadonlyMap<string, Check> = new Map(
  Object.entries({
    role: (value: unknown) => ROLES.has(value),
    content: (value: unknown) => typeof value === 'string',
  }),
)

/** `body` must have no null fields. False means that the schema has to decide. */
export function isPlainChat(body: Readonly<Record<string, unknown>>): boolean {
  return hasOnly(body, FIELDS) && body['messages'] !== undefined
}

function isPlainMessage(value: unknown): boolean {
  return hasOnly(value, MESSAGE) && (value as { role?: unknown }).role !== undefined
}

function hasOnly(value: unknown, fields: ReadonlyMap<string, Check>): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  for (const name of Object.keys(value)) {
    const check = fields.get(name)
    if (check === undefined || !check((value as Readonly<Record<string, unknown>>)[name])) {
      return false
    }
  }
  return true
}
