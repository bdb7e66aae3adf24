/**
 * Objects without absent keys. JSON `null` means "not given" in this API, and the values of room `request` never
 * contain `undefined`.
 */
type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** The same object without undefined fields. */
export function given<T extends object>(fields: T): Given<T> {
  const out: Given<T> = {}
  for (const key in fields) {
    const value = fields[key]
    if (value !== undefined) out[key] = value as Exclude<T[typeof key], undefined>
  }
  return out
}

/** The same object without null fields, one level deep (two in `nvext`): clients send unset fields as null. */
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
  // `Object.fromEntries` instead of assignment, so that a key `__proto__` does not set the prototype.
  return Object.fromEntries(present.map(([key, value]) => [key, inside(key, value)]))
}

const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
