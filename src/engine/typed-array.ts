/**
 * Reads typed arrays of an engine by the memory that they have.
 *
 * A subclass, or a property of the array itself, can give any other length, buffer or iterator, and another one with
 * each read; a proxy is an `instanceof` of what is behind it. The getters of the language are not deceived, and the
 * indexes of a typed array cannot be replaced.
 */
const CLASSES = {
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
} as const

export type TypedArrayClass = keyof typeof CLASSES
type TypedArray<Name extends TypedArrayClass> = InstanceType<(typeof CLASSES)[Name]>

const PROTOTYPE = Object.getPrototypeOf(Uint8Array.prototype) as object
const classOf = getterOf<string | undefined>(Symbol.toStringTag)
const bufferOf = getterOf<ArrayBuffer>('buffer')
const byteOffsetOf = getterOf<number>('byteOffset')

export const typedArrayLength = getterOf<number>('length')
export const typedArrayBytes = getterOf<number>('byteLength')

/** Undefined: not a typed array, or one of a class that cannot be sent. */
export function typedArrayClass(value: unknown): TypedArrayClass | undefined {
  const name = classOf(value)
  return name !== undefined && Object.hasOwn(CLASSES, name) ? (name as TypedArrayClass) : undefined
}

export function isTypedArray(value: unknown, name: TypedArrayClass): boolean {
  return classOf(value) === name
}

/** A copy of the base class. `array` must be of this class. Throws if its memory is in another thread now. */
export function typedArrayCopy<Name extends TypedArrayClass>(
  array: unknown,
  name: Name,
): TypedArray<Name> {
  // Given a typed array, the constructors read its memory and nothing else.
  return new CLASSES[name](array as never) as TypedArray<Name>
}

/**
 * The same memory as an array of the base class, which cannot report another length; an ordinary array is returned as
 * it is. `array` must be of this class.
 */
export function ordinaryArray<Name extends TypedArrayClass>(
  array: unknown,
  name: Name,
): TypedArray<Name> {
  const Base = CLASSES[name]
  const isOrdinary =
    Object.getPrototypeOf(array) === Base.prototype &&
    !Object.hasOwn(array as object, 'length') &&
    !Object.hasOwn(array as object, 'byteLength') &&
    !Object.hasOwn(array as object, 'byteOffset') &&
    !Object.hasOwn(array as object, 'buffer')
  if (isOrdinary) return array as TypedArray<Name>
  return new Base(bufferOf(array), byteOffsetOf(array), typedArrayLength(array)) as TypedArray<Name>
}

function getterOf<Value>(name: PropertyKey): (array: unknown) => Value {
  const property = Object.getOwnPropertyDescriptor(PROTOTYPE, name)
  const { get } = property as { readonly get: (this: unknown) => Value }
  return (array) => get.call(array)
}
