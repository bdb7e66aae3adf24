/**
 * Validates opaque values that an engine attaches (`engineData`, hand-over parameters) and that Baton passes on
 * unread: they must be plain and small enough to be sent to another process and converted to JSON.
 */
import { messageOf } from '../base/index.ts'
import { PAYLOAD_BYTES_MAX, VALUE_BYTES } from './item-budget.ts'
import { typedArrayBytes, typedArrayClass } from './typed-array.ts'

const DEPTH_MAX = 32

/** Null: the value can be sent. Otherwise what is wrong with it, and where. */
export function payloadFault(value: unknown, name: string): string | null {
  const walk = new PayloadWalk()
  try {
    return walk.faultOf(value, name, 0)
  } catch (thrown) {
    // A getter or proxy of the engine has thrown.
    return `${name} cannot be read: ${messageOf(thrown)}`
  }
}

class PayloadWalk {
  #bytes = 0

  faultOf(value: unknown, at: string, depth: number): string | null {
    if (this.#bytes > PAYLOAD_BYTES_MAX) return `${at} is over ${PAYLOAD_BYTES_MAX} bytes`
    if (depth > DEPTH_MAX) return `${at} is nested too deeply, or contains itself`
    this.#bytes += VALUE_BYTES
    switch (typeof value) {
      case 'boolean':
      case 'number':
      case 'undefined':
        return null
      case 'string':
        return this.#sized(value.length, at)
      case 'object':
        return value === null ? null : this.#objectFault(value, at, depth)
      default:
        return `${at} is a ${typeof value}`
    }
  }

  #objectFault(value: object, at: string, depth: number): string | null {
    if (ArrayBuffer.isView(value)) {
      const name = typedArrayClass(value)
      if (name === undefined) return `${at} is a view of another class than a list of numbers`
      // bigint has no JSON representation.
      const isBig = name === 'BigInt64Array' || name === 'BigUint64Array'
      return isBig ? `${at} is a list of bigint` : this.#sized(typedArrayBytes(value), at)
    }
    if (Array.isArray(value)) return this.#listFault(value, at, depth)
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) {
      return `${at} is a ${value.constructor.name}, not a plain record`
    }
    for (const [key, item] of Object.entries(value)) {
      const fault =
        this.#sized(key.length, at) ?? this.faultOf(item, `${at}.${key.slice(0, 40)}`, depth + 1)
      if (fault !== null) return fault
    }
    return null
  }

  #listFault(list: readonly unknown[], at: string, depth: number): string | null {
    for (const [index, item] of list.entries()) {
      // A hole in an array has no representation on the wire.
      if (item === undefined) return `${at}[${index}] is undefined`
      const fault = this.faultOf(item, `${at}[${index}]`, depth + 1)
      if (fault !== null) return fault
    }
    return null
  }

  #sized(bytes: number, at: string): string | null {
    this.#bytes += bytes
    return this.#bytes > PAYLOAD_BYTES_MAX ? `${at} is over ${PAYLOAD_BYTES_MAX} bytes` : null
  }
}
