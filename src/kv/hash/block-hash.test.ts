import { readFileSync } from 'node:fs'
import { xxh3 as oracle } from '@node-rs/xxhash'
import { describe, expect, it } from 'vitest'
import { generateXxh3 } from '../../../scripts/build-xxh3.ts'
import { chainSequence, hashBlocks, hashPartial, hashSequence } from './block-hash.ts'
import { hashesFromBigints, hashesToBigints, hashPairOf, hashToBigint } from './hash-pair.ts'
import { hashMediaId } from './media-hash.ts'
import { XXH3_WASM_BASE64 } from './xxh3-wasm.generated.ts'
import { xxh3Text } from './xxh3.ts'

type Tokens = { readonly kind: string; readonly n: number } | readonly number[]

interface BlockVector {
  readonly block_size: number
  readonly tokens: Tokens
  readonly block: readonly string[]
  readonly seq: readonly string[]
  readonly lora_name?: string
  readonly cache_namespace?: string
  readonly is_eagle?: boolean
  readonly block_mm_infos?: readonly (readonly string[] | null)[]
}

interface DynamoVector {
  readonly seq: string
  readonly block_size: number
  readonly hashes: readonly string[]
  readonly kwargs: {
    readonly lora_name?: string
    readonly cache_namespace?: string
    readonly is_eagle?: boolean
    readonly block_mm_infos?: readonly ({
      readonly mm_objects: readonly { readonly mm_hash: number | string }[]
    } | null)[]
  }
}

interface Vectors {
  readonly blockAndSequence: readonly BlockVector[]
  readonly misc: {
    readonly compute_next_seq_hash: readonly { parent: string; block: string; hash: string }[]
    readonly hash_mm_identifier: readonly { id: string; hash: string | null }[]
    readonly pad_value_for_mm_hash: readonly { mm_hash: string; pad: number }[]
  }
  readonly dynamo: {
    readonly sequences: Readonly<Record<string, Tokens>>
    readonly blockHashes: readonly DynamoVector[]
  }
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/vectors/block-hash.json', import.meta.url), 'utf8'),
) as Vectors

const FORMULAS: Record<string, (i: number) => number> = {
  iota: (i) => i,
  lcg: (i) => Number((BigInt(i) * 2654435761n + 12345n) & 0xffffffffn),
  max: () => 4294967295,
  zero: () => 0,
  seven: () => 7,
  rep1234: (i) => (i % 4) + 1,
}

function tokensOf(tokens: Tokens): Uint32Array {
  if (!('kind' in tokens)) return Uint32Array.from(tokens)
  const formula = FORMULAS[tokens.kind] ?? expect.unreachable(tokens.kind)
  return Uint32Array.from({ length: tokens.n }, (_, i) => formula(i))
}

const iota = (n: number): Uint32Array => tokensOf({ kind: 'iota', n })
const texts = (pairs: Uint32Array): string[] => hashesToBigints(pairs).map(String)
const media = (ids: readonly (number | string)[] | null): Uint32Array | null =>
  ids === null ? null : hashesFromBigints(ids.map((id) => BigInt(id)))

it('hashSequence - gives the sequence hashes of hashBlocks', () => {
  const tokens = Uint32Array.from({ length: 70_000 }, (_, at) => at * 7)
  for (const options of [{}, { salt: 'a' }, { loraName: 'b', bigram: true }]) {
    for (const length of [0, 15, 16, 17, 1000, tokens.length]) {
      const prompt = tokens.subarray(0, length)
      expect(hashSequence(prompt, 16, options)).toEqual(hashBlocks(prompt, 16, options).sequence)
    }
  }
})

describe('hashBlocks', () => {
  it.each(vectors.blockAndSequence.map((v) => [JSON.stringify({ ...v, block: 0, seq: 0 }), v]))(
    'hashBlocks - reproduces %s',
    (_name, raw) => {
      const vector = raw as BlockVector
      const { local, sequence } = hashBlocks(tokensOf(vector.tokens), vector.block_size, {
        loraName: vector.lora_name ?? '',
        salt: vector.cache_namespace ?? '',
        bigram: vector.is_eagle ?? false,
        mediaHashes: (vector.block_mm_infos ?? []).map(media),
      })
      expect(texts(local)).toEqual(vector.block)
      expect(texts(sequence)).toEqual(vector.seq)
    },
  )

  it('hashBlocks - reproduces the recorded calls of the Python binding', () => {
    for (const { seq, block_size, kwargs, hashes } of vectors.dynamo.blockHashes) {
      const { local } = hashBlocks(tokensOf(vectors.dynamo.sequences[seq] ?? []), block_size, {
        loraName: kwargs.lora_name ?? '',
        salt: kwargs.cache_namespace ?? '',
        bigram: kwargs.is_eagle ?? false,
        mediaHashes: (kwargs.block_mm_infos ?? []).map((info) =>
          media(info === null ? null : info.mm_objects.map((object) => object.mm_hash)),
        ),
      })
      expect(texts(local), JSON.stringify([seq, block_size, kwargs])).toEqual(hashes)
    }
  })

  it('hashBlocks - V1 to V7 of the published notes', () => {
    const v1 = hashBlocks(iota(16), 4)
    expect(texts(v1.local)).toEqual([
      '9143094415614847814',
      '12124091508212882195',
      '1088361764653601668',
      '16024980976528976948',
    ])
    expect(texts(v1.sequence)[3]).toBe('16790386768269814709')
    expect(texts(hashBlocks(iota(128), 64).sequence)[1]).toBe('2575318956255022795')
    const first = (options: object): string | undefined =>
      texts(hashBlocks(iota(4), 4, options).local)[0]
    expect(first({ loraName: 'adapter-a' })).toBe('6665157333201000639')
    expect(first({ salt: 'tenant-a' })).toBe('17009624042690211646')
    expect(first({ loraName: 'adapter-a', salt: 'tenant-a' })).toBe('8269515957840517240')
    const v6 = hashBlocks(iota(4), 2, { mediaHashes: [Uint32Array.of(42, 0), null] })
    expect(texts(v6.sequence)).toEqual(['6100948656312251355', '1446685509019147680'])
    const v7 = hashBlocks(iota(9), 4, { bigram: true })
    expect(texts(v7.sequence)).toEqual(['14562210786876287112', '11643125693293304894'])
  })

  it.each([1, 3, 16, 700])(
    'hashBlocks - prompts longer than the kernel input are hashed in pieces (block of %i tokens)',
    (blockTokens) => {
      const tokens = tokensOf({ kind: 'lcg', n: 150_001 })
      const whole = hashBlocks(tokens, blockTokens, { bigram: true })
      const bytes = new Uint8Array(tokens.buffer)
      let parent = 0n
      const expected: bigint[] = []
      for (let at = 0; at + blockTokens + 1 <= tokens.length; at += blockTokens) {
        const end = 4 * (at + blockTokens + 1)
        const local = oracle.xxh64(Buffer.from(bytes.subarray(4 * at, end)), 1337n)
        const link = Buffer.from(Uint32Array.of(...hashPairOf(parent), ...hashPairOf(local)).buffer)
        parent = at === 0 ? local : oracle.xxh64(link, 1337n)
        expected.push(parent)
      }
      expect(hashesToBigints(whole.sequence)).toEqual(expected)
      expect(chainSequence(whole.local, null)).toEqual(whole.sequence)
    },
  )

  it('hashBlocks - no complete block gives empty hashes, an invalid block size is refused', () => {
    expect(hashBlocks(new Uint32Array(0), 16).sequence).toHaveLength(0)
    expect(hashBlocks(iota(16), 16, { bigram: true }).sequence).toHaveLength(0)
    expect(() => hashBlocks(iota(4), 0)).toThrow(/block size is invalid/)
    expect(() => hashBlocks(iota(4), 2.5)).toThrow(/block size is invalid/)
    expect(() => hashBlocks(iota(4), 1 << 20)).toThrow(/block size is invalid/)
  })
})

describe('hashPartial', () => {
  it('hashPartial - a complete block has the same hash as from hashBlocks, at the start and later', () => {
    const names = { salt: 'tenant-a', loraName: 'adapter-a' }
    const { sequence } = hashBlocks(iota(12), 4, names)
    expect(hashPartial(0, null, iota(4), names)).toEqual([...sequence.subarray(0, 2)])
    const parent = sequence.subarray(2, 4)
    expect(
      hashPartial(parent[0] ?? 0, parent[1] ?? 0, Uint32Array.of(8, 9, 10, 11), names),
    ).toEqual([...sequence.subarray(4, 6)])
  })

  it('hashPartial - length, parent and salt all change the hash', () => {
    const hashes = [
      hashPartial(0, null, iota(3)),
      hashPartial(0, null, iota(4)),
      hashPartial(0, 0, iota(4)),
      hashPartial(0, null, iota(4), { salt: 'x' }),
    ]
    expect(new Set(hashes.map((pair) => hashToBigint(...pair))).size).toBe(4)
  })
})

describe('chainSequence', () => {
  it('chainSequence - reproduces single steps', () => {
    for (const { parent, block, hash } of vectors.misc.compute_next_seq_hash) {
      const next = chainSequence(hashesFromBigints([BigInt(block)]), hashPairOf(BigInt(parent)))
      expect(texts(next)).toEqual([hash])
    }
  })
})

describe('media hashes', () => {
  it('media hashes - identifiers hash as recorded', () => {
    for (const { id, hash } of vectors.misc.hash_mm_identifier) {
      const pair = hashMediaId(id)
      expect(pair === null ? null : hashToBigint(...pair).toString()).toBe(hash)
    }
    expect(hashToBigint(...xxh3Text('opaque-renderer-image-0'))).toBe(14437604544409538977n)
  })
})

describe('kernel', () => {
  it('kernel - the generated bytes equal the compiled source', { timeout: 60_000 }, async () => {
    expect(await generateXxh3()).toContain(XXH3_WASM_BASE64)
  })
})
