/**
 * The WebAssembly instance that computes XXH3, with views of its memory.
 *
 * Owns decoding, the synchronous instantiation (about 5 KB) and the three windows of memory: input, local hashes,
 * sequence hashes. The module is stateless between calls except for `link`, which `chainLocals` updates. Everything
 * is synchronous and used by one thread. The memory never grows, so the views stay valid.
 */
import { XXH3_WASM_BASE64 } from './xxh3-wasm.generated.ts'

interface KernelExports {
  readonly memory: WebAssembly.Memory
  readonly inputAddress: () => number
  readonly inputBytes: () => number
  readonly blocksMax: () => number
  readonly resultAddress: () => number
  readonly linkAddress: () => number
  readonly localAddress: () => number
  readonly sequenceAddress: () => number
  readonly hashInput: (byteCount: number, seedLow: number, seedHigh: number) => void
  readonly hashWindows: (
    count: number,
    strideBytes: number,
    windowBytes: number,
    seedLow: number,
    seedHigh: number,
  ) => void
  readonly chainLocals: (
    count: number,
    hasParent: boolean,
    seedLow: number,
    seedHigh: number,
  ) => void
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** Own decoder, because pure rooms have neither Buffer nor atob. */
function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const symbols = text.replace(/=+$/, '')
  const bytes = new Uint8Array(Math.floor((symbols.length * 3) / 4))
  let bits = 0
  let bitCount = 0
  let length = 0
  for (const symbol of symbols) {
    bits = ((bits << 6) | BASE64.indexOf(symbol)) & 0xffff
    bitCount += 6
    if (bitCount >= 8) {
      bitCount -= 8
      bytes[length++] = (bits >> bitCount) & 0xff
    }
  }
  return bytes
}

const exports = new WebAssembly.Instance(new WebAssembly.Module(decodeBase64(XXH3_WASM_BASE64)), {
  env: { abort: () => undefined },
}).exports as unknown as KernelExports

const { buffer } = exports.memory
const u32At = (address: number, length: number): Uint32Array =>
  new Uint32Array(buffer, address, length)

/** Limits of one call: bytes of input, number of blocks. */
export const INPUT_BYTES_MAX = exports.inputBytes()
export const BLOCKS_MAX = exports.blocksMax()

export const inputBytes = new Uint8Array(buffer, exports.inputAddress(), INPUT_BYTES_MAX)
export const inputWords = u32At(exports.inputAddress(), INPUT_BYTES_MAX / 4)
/** (low, high): the result of `hashInput`. */
export const result = u32At(exports.resultAddress(), 2)
/** (low, high): the sequence hash from which the next `chainLocals` continues. */
export const link = u32At(exports.linkAddress(), 2)
/** (low, high) pairs. */
export const locals = u32At(exports.localAddress(), 2 * BLOCKS_MAX)
export const sequences = u32At(exports.sequenceAddress(), 2 * BLOCKS_MAX)

/** Hashes the first `byteCount` bytes of the input into `result`. */
export const hashInput = exports.hashInput
/** Hashes `count` windows of the input, one every `strideBytes`, into `locals`. */
export const hashWindows = exports.hashWindows
/** Chains the first `count` local hashes into `sequences`, starting from `link` if there is a parent. */
export const chainLocals = exports.chainLocals
