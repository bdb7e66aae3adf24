/**
 * Copies a value that consists of plain records, lists and typed arrays, as its check will see it.
 *
 * What is not plain (a function, a class instance, a value nested too deeply) stays as it is: copying does not judge,
 * and the check that follows refuses it.
 */
import { VALUE_BYTES } from './item-budget.ts'
import type { ItemBudget } from './item-budget.ts'
import { typedArrayBytes, typedArrayClass, typedArrayCopy } from './typed-array.ts'

const DEPTH_MAX = 40

/** Throws if the budget is exceeded, before the part that exceeds it is copied. */
export function plainCopy<Value>(value: Value, budget: ItemBudget): Value {
  return copyOf(value, budget, 0) as Value
}

function copyOf(value: unknown, budget: ItemBudget, depth: number): unknown {
  if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) return value
  if (ArrayBuffer.isView(value)) return copyOfView(value, budget)
  if (Array.isArray(value)) return copyOfList(value, budget, depth)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  const entries = Object.entries(value)
  budget.take(entries.length, VALUE_BYTES)
  // Not assigned one by one, because a key may be `__proto__`.
  return Object.fromEntries(entries.map(([key, item]) => [key, copyOf(item, budget, depth + 1)]))
}

function copyOfList(list: readonly unknown[], budget: ItemBudget, depth: number): unknown[] {
  const { length } = list
  budget.take(length, VALUE_BYTES)
  const own: unknown[] = []
  for (let i = 0; i < length; i++) own.push(copyOf(list[i], budget, depth + 1))
  return own
}

function copyOfView(view: ArrayBufferView, budget: ItemBudget): ArrayBufferView {
  const name = typedArrayClass(view)
  if (name === undefined) return view
  budget.take(typedArrayBytes(view), 1)
  return typedArrayCopy(view, name)
}
