/**
 * Copies a value that consists of plain records, lists and typed arrays, as its check will see it.
 *
 * What is not plain (a function, a class instance, a value nested too deeply) stays as it is: copying does not judge,
 * and the check that follows refuses it.
 */
const DEPTH_MAX = 40

/** Limit of the values in one copy, above what a frame can carry; a proxy may have any number. */
export const VALUES_MAX = 2 ** 22

export function plainCopy<Value>(value: Value): Value {
  return new PlainCopy().of(value, 0) as Value
}

class PlainCopy {
  #values = 0

  of(value: unknown, depth: number): unknown {
    if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) return value
    if (ArrayBuffer.isView(value)) return copyOfView(value)
    if (Array.isArray(value)) return this.#list(value, depth)
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) return value
    const entries = Object.entries(value)
    this.#count(entries.length)
    // Not assigned one by one, because a key may be `__proto__`.
    return Object.fromEntries(entries.map(([key, item]) => [key, this.of(item, depth + 1)]))
  }

  #list(list: readonly unknown[], depth: number): unknown[] {
    const { length } = list
    this.#count(length)
    const own: unknown[] = []
    for (let i = 0; i < length; i++) own.push(this.of(list[i], depth + 1))
    return own
  }

  #count(values: number): void {
    this.#values += values
    if (this.#values > VALUES_MAX) throw new RangeError(`more than ${VALUES_MAX} values`)
  }
}

function copyOfView(view: ArrayBufferView): ArrayBufferView {
  // That of the typed arrays, because `slice` of a Buffer shares its memory.
  return view instanceof DataView ? view : Uint8Array.prototype.slice.call(view)
}
