// XXH3-64 with a seed, and the two loops that a prompt needs: hash every block, chain the block hashes.
//
// AssemblyScript, compiled by scripts/build-xxh3.ts into src/kv/xxh3-wasm.generated.ts. The file is not named .ts so
// that the TypeScript compiler leaves it alone. 64-bit values cross the border as two u32, because an i64 would
// become a BigInt there. The memory never grows: a grown memory would detach the host's views.

const PRIME32_1: u64 = 0x9e3779b1;
const PRIME32_2: u64 = 0x85ebca77;
const PRIME32_3: u64 = 0xc2b2ae3d;
const PRIME64_1: u64 = 0x9e3779b185ebca87;
const PRIME64_2: u64 = 0xc2b2ae3d27d4eb4f;
const PRIME64_3: u64 = 0x165667b19e3779f9;
const PRIME64_4: u64 = 0x85ebca77c2b2ae63;
const PRIME64_5: u64 = 0x27d4eb2f165667c5;
const MIX_1: u64 = 0x165667919e3779f9;
const MIX_2: u64 = 0x9fb21c651e98df25;

const SECRET_BYTES: usize = 192;
const STRIPE_BYTES: usize = 64;
const STRIPES_PER_ROUND: usize = 16; // (192 - 64) / 8

// The algorithm's default secret.
const SECRET: usize = memory.data<u8>([
  0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
  0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
  0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
  0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
  0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
  0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
  0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
  0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
  0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
  0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
  0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
  0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
], 16);

const INPUT_BYTES: usize = 262144;
const BLOCKS_MAX: usize = 8192;

const SEEDED_SECRET: usize = memory.data(192, 16);
const RESULT: usize = memory.data(8, 16);
// Last sequence hash, then the local hash that is chained to it: the 16 bytes of a chain step.
const LINK: usize = memory.data(16, 16);
const INPUT: usize = memory.data(262144, 16);
const LOCAL: usize = memory.data(65536, 16);
const SEQUENCE: usize = memory.data(65536, 16);

let seededFor: u64 = 0;

export function inputAddress(): usize { return INPUT; }
export function inputBytes(): usize { return INPUT_BYTES; }
export function blocksMax(): usize { return BLOCKS_MAX; }
export function resultAddress(): usize { return RESULT; }
export function linkAddress(): usize { return LINK; }
export function localAddress(): usize { return LOCAL; }
export function sequenceAddress(): usize { return SEQUENCE; }

@inline function pair(low: u32, high: u32): u64 { return (<u64>high << 32) | <u64>low; }
@inline function read(at: usize): u64 { return load<u64>(at); }

// Both halves of the 128-bit product, xored.
@inline function foldProduct(a: u64, b: u64): u64 {
  const aLow = a & 0xffffffff, aHigh = a >> 32, bLow = b & 0xffffffff, bHigh = b >> 32;
  const lowLow = aLow * bLow, highLow = aHigh * bLow;
  const cross = (lowLow >> 32) + (highLow & 0xffffffff) + aLow * bHigh;
  const upper = (highLow >> 32) + (cross >> 32) + aHigh * bHigh;
  return upper ^ ((cross << 32) | (lowLow & 0xffffffff));
}

@inline function avalanche(h: u64): u64 { h ^= h >> 37; h *= MIX_1; return h ^ (h >> 32); }

@inline function avalancheShort(h: u64): u64 {
  h ^= h >> 33; h *= PRIME64_2; h ^= h >> 29; h *= PRIME64_3; return h ^ (h >> 32);
}

@inline function mix16(at: usize, secret: usize, seed: u64): u64 {
  return foldProduct(read(at) ^ (read(secret) + seed), read(at + 8) ^ (read(secret + 8) - seed));
}

function hash1to3(at: usize, length: usize, seed: u64): u64 {
  const first = <u32>load<u8>(at), middle = <u32>load<u8>(at + (length >> 1)), last = <u32>load<u8>(at + length - 1);
  const combined = (first << 16) | (middle << 24) | last | (<u32>length << 8);
  return avalancheShort(<u64>combined ^ (<u64>(load<u32>(SECRET) ^ load<u32>(SECRET + 4)) + seed));
}

function hash4to8(at: usize, length: usize, seedIn: u64): u64 {
  const seed = seedIn ^ (<u64>bswap<u32>(<u32>seedIn) << 32);
  const joined = <u64>load<u32>(at + length - 4) + (<u64>load<u32>(at) << 32);
  let h = joined ^ ((read(SECRET + 8) ^ read(SECRET + 16)) - seed);
  h ^= rotl<u64>(h, 49) ^ rotl<u64>(h, 24);
  h *= MIX_2;
  h ^= (h >> 35) + <u64>length;
  h *= MIX_2;
  return h ^ (h >> 28);
}

@inline function hash9to16(at: usize, length: usize, seed: u64): u64 {
  const low = read(at) ^ ((read(SECRET + 24) ^ read(SECRET + 32)) + seed);
  const high = read(at + length - 8) ^ ((read(SECRET + 40) ^ read(SECRET + 48)) - seed);
  return avalanche(<u64>length + bswap<u64>(low) + high + foldProduct(low, high));
}

function hash17to128(at: usize, length: usize, seed: u64): u64 {
  let h = <u64>length * PRIME64_1;
  const end = at + length;
  if (length > 32) {
    if (length > 64) {
      if (length > 96) h += mix16(at + 48, SECRET + 96, seed) + mix16(end - 64, SECRET + 112, seed);
      h += mix16(at + 32, SECRET + 64, seed) + mix16(end - 48, SECRET + 80, seed);
    }
    h += mix16(at + 16, SECRET + 32, seed) + mix16(end - 32, SECRET + 48, seed);
  }
  return avalanche(h + mix16(at, SECRET, seed) + mix16(end - 16, SECRET + 16, seed));
}

function hash129to240(at: usize, length: usize, seed: u64): u64 {
  let h = <u64>length * PRIME64_1;
  const rounds = length / 16;
  for (let i: usize = 0; i < 8; i++) h += mix16(at + 16 * i, SECRET + 16 * i, seed);
  h = avalanche(h);
  for (let i: usize = 8; i < rounds; i++) h += mix16(at + 16 * i, SECRET + 16 * (i - 8) + 3, seed);
  return avalanche(h + mix16(at + length - 16, SECRET + 136 - 17, seed));
}

function seededSecret(seed: u64): usize {
  if (seed == 0) return SECRET;
  if (seed != seededFor) {
    for (let i: usize = 0; i < SECRET_BYTES; i += 16) {
      store<u64>(SEEDED_SECRET + i, read(SECRET + i) + seed);
      store<u64>(SEEDED_SECRET + i + 8, read(SECRET + i + 8) - seed);
    }
    seededFor = seed;
  }
  return SEEDED_SECRET;
}

// Two lanes of one stripe: each lane gets its neighbour's data and the product of the halves of its keyed data.
@inline function accumulate(lanes: v128, at: usize, secret: usize): v128 {
  const data = v128.load(at);
  const keyed = v128.xor(data, v128.load(secret));
  const product = i64x2.extmul_low_i32x4_u(
    v128.shuffle<u32>(keyed, keyed, 0, 2, 0, 2), v128.shuffle<u32>(keyed, keyed, 1, 3, 1, 3));
  return i64x2.add(lanes, i64x2.add(product, v128.shuffle<u64>(data, data, 1, 0)));
}

@inline function scramble(lanes: v128, secret: usize): v128 {
  const mixed = v128.xor(v128.xor(lanes, i64x2.shr_u(lanes, 47)), v128.load(secret));
  return i64x2.mul(mixed, i64x2.splat(PRIME32_1));
}

@inline function mergeLanes(lanes: v128, secret: usize): u64 {
  return foldProduct(
    i64x2.extract_lane(lanes, 0) ^ read(secret), i64x2.extract_lane(lanes, 1) ^ read(secret + 8));
}

function hashLong(at: usize, length: usize, seed: u64): u64 {
  const secret = seededSecret(seed);
  let a = i64x2(PRIME32_3, PRIME64_1), b = i64x2(PRIME64_2, PRIME64_3);
  let c = i64x2(PRIME64_4, PRIME32_2), d = i64x2(PRIME64_5, PRIME32_1);
  const last = at + length - STRIPE_BYTES;
  let left = (length - 1) / STRIPE_BYTES;
  while (left > 0) {
    const stripes = min(left, STRIPES_PER_ROUND);
    let key = secret;
    for (let i: usize = 0; i < stripes; i++, at += STRIPE_BYTES, key += 8) {
      a = accumulate(a, at, key); b = accumulate(b, at + 16, key + 16);
      c = accumulate(c, at + 32, key + 32); d = accumulate(d, at + 48, key + 48);
    }
    left -= stripes;
    if (stripes == STRIPES_PER_ROUND) {
      key = secret + SECRET_BYTES - STRIPE_BYTES;
      a = scramble(a, key); b = scramble(b, key + 16); c = scramble(c, key + 32); d = scramble(d, key + 48);
    }
  }
  const key = secret + SECRET_BYTES - STRIPE_BYTES - 7;
  a = accumulate(a, last, key); b = accumulate(b, last + 16, key + 16);
  c = accumulate(c, last + 32, key + 32); d = accumulate(d, last + 48, key + 48);
  const merge = secret + 11;
  return avalanche(<u64>length * PRIME64_1 + mergeLanes(a, merge) + mergeLanes(b, merge + 16)
    + mergeLanes(c, merge + 32) + mergeLanes(d, merge + 48));
}

function hash64(at: usize, length: usize, seed: u64): u64 {
  if (length > 240) return hashLong(at, length, seed);
  if (length > 128) return hash129to240(at, length, seed);
  if (length > 16) return hash17to128(at, length, seed);
  if (length > 8) return hash9to16(at, length, seed);
  if (length >= 4) return hash4to8(at, length, seed);
  if (length > 0) return hash1to3(at, length, seed);
  return avalancheShort(seed ^ (read(SECRET + 56) ^ read(SECRET + 64)));
}

// Hashes `length` bytes of the input window into RESULT.
export function hashInput(length: usize, seedLow: u32, seedHigh: u32): void {
  store<u64>(RESULT, hash64(INPUT, length, pair(seedLow, seedHigh)));
}

// LOCAL[from + i] = hash of the window that begins at i * strideBytes of the input.
export function hashWindows(
  count: usize, strideBytes: usize, windowBytes: usize, seedLow: u32, seedHigh: u32): void {
  const seed = pair(seedLow, seedHigh);
  let at = INPUT;
  for (let out = LOCAL; out < LOCAL + 8 * count; out += 8, at += strideBytes) {
    store<u64>(out, hash64(at, windowBytes, seed));
  }
}

// SEQUENCE[i] = hash(previous, LOCAL[i]); LINK holds the previous one and is left at the last. Without a parent the
// first sequence hash is the first local hash.
export function chainLocals(count: usize, hasParent: bool, seedLow: u32, seedHigh: u32): void {
  const seed = pair(seedLow, seedHigh);
  let i: usize = 0;
  if (!hasParent && count > 0) {
    store<u64>(LINK, read(LOCAL));
    store<u64>(SEQUENCE, read(LOCAL));
    i = 1;
  }
  for (; i < count; i++) {
    store<u64>(LINK + 8, read(LOCAL + 8 * i));
    const next = hash9to16(LINK, 16, seed);
    store<u64>(SEQUENCE + 8 * i, next);
    store<u64>(LINK, next);
  }
}
