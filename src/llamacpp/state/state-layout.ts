/**
 * The shape of one token's KV in llama.cpp's sequence state, and the limits within which a state is accepted.
 *
 * Owns: the layout record. Does not own bytes: see `state-codec.ts`.
 */

/** K or V of one layer. Row-major unless transposed; then `elements` columns of `elementBytes` each. */
export interface LayerRows {
  readonly type: number
  readonly rowBytes: number
  readonly elementBytes: number
  readonly elements: number
}

export interface KvLayout {
  /** V is stored by element instead of by token: without flash attention. */
  readonly valuesTransposed: boolean
  readonly keys: readonly LayerRows[]
  readonly values: readonly LayerRows[]
  readonly bytesPerToken: number
}

/** The text that two workers compare before they exchange a block. */
export function layoutText(layout: KvLayout): string {
  const rows = (all: readonly LayerRows[]): string =>
    all.map((row) => `${row.type}:${row.rowBytes}`).join(',')
  const order = layout.valuesTransposed ? 't' : 'r'
  return `${order};k=${rows(layout.keys)};v=${rows(layout.values)}`
}

export function bytesPerTokenOf(keys: readonly LayerRows[], values: readonly LayerRows[]): number {
  let bytes = 0
  for (const row of keys) bytes += row.rowBytes
  for (const row of values) bytes += row.rowBytes
  return bytes
}
