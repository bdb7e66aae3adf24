/**
 * Objects without the keys that are not there. JSON's `null` means "not given" in this protocol, and the values of
 * room `request` never carry `undefined`.
 */
type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** The same fields without those that are undefined. */
export function given<T extends object>(fields: T): Given<T> {
  const out: Given<T> = {}
  for (const key in fields) {
    const value = fields[key]
    if (value !== undefined) out[key] = value as Exclude<T[typeof key], undefined>
  }
  return out
}

/** The same object without the keys whose value is null, one level only; in `nvext` two: clients write out what they leave unset. */
export function withoutNulls(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return mayHoldNulls(body) ? withoutThem(body) : { ...body }
}

function mayHoldNulls(body: Readonly<Record<string, unknown>>): boolean {
  for (const key in body) if (body[key] === null || key === 'nvext') return true
  return false
}

function withoutThem(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return without(body, (key, value) =>
    key === 'nvext' && isPlain(value)
      ? without(value, (_, inner) =>
          isPlain(inner) ? without(inner, (_key, leaf) => leaf) : inner,
        )
      : value,
  )
}

function without(
  fields: Readonly<Record<string, unknown>>,
  inside: (key: string, value: unknown) => unknown,
): Record<string, unknown> {
  const present = Object.entries(fields).filter(([, value]) => value !== null)
  // Not by assignment: a key `__proto__` is one like others, and no prototype.
  return Object.fromEntries(present.map(([key, value]) => [key, inside(key, value)]))
}

const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
