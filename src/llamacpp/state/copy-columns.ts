/**
 * Copies values that are stored by element: many short pieces, each a few bytes of consecutive tokens. A view and a
 * call per piece would cost more than the bytes, so elements are copied one by one.
 */

/** Pieces start `step` elements apart, from `at` on. */
export interface Columns {
  readonly bytes: Uint8Array
  /** In bytes. */
  readonly at: number
  readonly step: number
}

/** Copies `columns` pieces of `count` elements each. */
export function copyColumns(
  from: Columns,
  to: Columns,
  size: { readonly columns: number; readonly count: number; readonly elementBytes: number },
): void {
  const { columns, count, elementBytes } = size
  const units = [unitOf(from, elementBytes), unitOf(to, elementBytes)]
  const unit = units[0] === units[1] ? (units[0] ?? 1) : 1
  const scale = elementBytes / unit
  const [source, target] = [viewOf(from, unit), viewOf(to, unit)]
  const [sourceStep, targetStep] = [from.step * scale, to.step * scale]
  const length = count * scale
  for (let column = 0; column < columns; column++) {
    const [s, t] = [column * sourceStep, column * targetStep]
    for (let i = 0; i < length; i++) target[t + i] = source[s + i] as number
  }
}

/** Bytes that can be copied at once: a view of wider elements must be aligned. */
function unitOf({ bytes, at }: Columns, elementBytes: number): 1 | 2 | 4 {
  const place = bytes.byteOffset + at
  if (elementBytes % 4 === 0 && place % 4 === 0) return 4
  return elementBytes % 2 === 0 && place % 2 === 0 ? 2 : 1
}

function viewOf({ bytes, at }: Columns, unit: 1 | 2 | 4): Uint8Array | Uint16Array | Uint32Array {
  const start = bytes.byteOffset + at
  const length = Math.floor((bytes.length - at) / unit)
  if (unit === 4) return new Uint32Array(bytes.buffer, start, length)
  if (unit === 2) return new Uint16Array(bytes.buffer, start, length)
  return bytes.subarray(at)
}
