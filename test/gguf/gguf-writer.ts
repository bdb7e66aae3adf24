/**
 * Writes GGUF v3 headers for tests: metadata only, no tensors. llama.cpp loads such a file with `vocabOnly`.
 */
export type GgufEntry =
  | { readonly type: 'u32' | 'f32' | 'u64'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'f32s' | 'i32s'; readonly value: readonly number[] }

const TYPE_CODE = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9, u64: 10 } as const

export function writeGguf(
  entries: Readonly<Record<string, GgufEntry>>,
  options: { readonly version?: number; readonly tensorCount?: number } = {},
): Uint8Array<ArrayBuffer> {
  const parts: Buffer[] = [
    Buffer.from('GGUF'),
    u32(options.version ?? 3),
    u64(options.tensorCount ?? 0),
    u64(Object.keys(entries).length),
  ]
  for (const [key, entry] of Object.entries(entries)) parts.push(string(key), ...encode(entry))
  return new Uint8Array(Buffer.concat(parts))
}

function encode(entry: GgufEntry): Buffer[] {
  switch (entry.type) {
    case 'u32':
      return [u32(TYPE_CODE.u32), u32(entry.value)]
    case 'u64':
      return [u32(TYPE_CODE.u64), u64(entry.value)]
    case 'f32':
      return [u32(TYPE_CODE.f32), f32(entry.value)]
    case 'bool':
      return [u32(TYPE_CODE.bool), Buffer.of(entry.value ? 1 : 0)]
    case 'string':
      return [u32(TYPE_CODE.string), string(entry.value)]
    case 'strings':
      return list(TYPE_CODE.string, entry.value.map(string))
    case 'f32s':
      return list(TYPE_CODE.f32, entry.value.map(f32))
    case 'i32s':
      return list(TYPE_CODE.i32, entry.value.map(i32))
  }
}

function list(type: number, items: readonly Buffer[]): Buffer[] {
  return [u32(TYPE_CODE.array), u32(type), u64(items.length), Buffer.concat(items)]
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function i32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32LE(value)
  return bytes
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([u64(bytes.length), bytes])
}
