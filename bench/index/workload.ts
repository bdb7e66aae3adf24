/**
 * The workload of the index benchmark: a trace of hash ids, replayed through caches with LRU eviction.
 *
 * Every hash id is a group of 32 blocks. All counts are multiples of 32 and LRU touches a request's deepest block
 * first, so that groups are stored and evicted as a whole and the caches can be simulated group by group.
 */
import { readFileSync } from 'node:fs'
import { chainSequence, hashPairOf, xxh3 } from '../../src/kv/index.ts'

export const GROUP_BLOCKS = 32

export interface Request {
  readonly worker: number
  /** Groups of the prompt, from the root on; numbers of `Chains`. */
  readonly groups: Int32Array
  readonly cachedGroups: number
  readonly bestGroups: number
  /** Evicted groups, oldest first; in each the deepest block goes first. */
  readonly removed: Int32Array
}

/** Sequence hashes of every distinct group of the trace. */
export interface Chains {
  readonly sequence: Uint32Array
}

const MASK = (1n << 64n) - 1n

export function splitmix64(value: bigint): bigint {
  let z = (value + 0x9e3779b97f4a7c15n) & MASK
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK
  return z ^ (z >> 31n)
}

interface Trace {
  readonly requests: readonly Int32Array[]
  readonly chains: Chains
}

/** Reads a trace of `{ hash_ids }` lines and hashes its blocks. */
export function readTrace(path: string): Trace {
  const lines = readFileSync(path, 'utf8').trim().split('\n')
  const lists = lines.map((line) => (JSON.parse(line) as { hash_ids: number[] }).hash_ids)
  const groupOf = new Map<string, number>()
  const ids: number[] = []
  const parents: number[] = []
  const requests = lists.map((list) => {
    let parent = -1
    return Int32Array.from(list, (id: number) => {
      const key = `${parent}/${id}`
      let group = groupOf.get(key)
      if (group === undefined) {
        group = ids.length
        groupOf.set(key, group)
        ids.push(id)
        parents.push(parent)
      }
      parent = group
      return group
    })
  })
  const sequence = new Uint32Array(2 * GROUP_BLOCKS * ids.length)
  const input = new Uint32Array(4)
  const bytes = new Uint8Array(input.buffer)
  const local = new Uint32Array(2 * GROUP_BLOCKS)
  ids.forEach((id, group) => {
    input.set(hashPairOf(BigInt(id)))
    for (let j = 0; j < GROUP_BLOCKS; j++) {
      input[2] = j
      local.set(xxh3(bytes, [1337, 0]), 2 * j)
    }
    const parent = 2 * GROUP_BLOCKS * ((parents[group] as number) + 1)
    const link = parent === 0 ? null : ([sequence[parent - 2], sequence[parent - 1]] as const)
    sequence.set(chainSequence(local, link as [number, number] | null), 2 * GROUP_BLOCKS * group)
  })
  return { requests, chains: { sequence } }
}

interface WorkloadOptions {
  readonly workers: number
  readonly workerBlocks: number
  readonly isSticky: boolean
}

/** Assigns every request to a worker and simulates its cache. */
export function playTrace(trace: Trace, options: WorkloadOptions): Request[] {
  const { workers, isSticky } = options
  const groupsMax = options.workerBlocks / GROUP_BLOCKS
  const caches = Array.from({ length: workers }, () => new Set<number>())
  const holders = new Map<number, Set<number>>()
  const requestCounts = new Int32Array(workers)
  return trace.requests.map((all, line) => {
    const groups = all.subarray(0, groupsMax)
    let best = 0
    while (best < groups.length && (holders.get(groups[best] as number)?.size ?? 0) > 0) best += 1
    let worker = Number(splitmix64(BigInt(line)) % BigInt(workers))
    if (isSticky && best > 0 && 4 * best >= groups.length) {
      worker = -1
      for (const candidate of holders.get(groups[best - 1] as number) ?? []) {
        const difference =
          worker < 0 ? -1 : (requestCounts[candidate] as number) - (requestCounts[worker] as number)
        if (difference < 0 || (difference === 0 && candidate < worker)) worker = candidate
      }
    }
    requestCounts[worker] = (requestCounts[worker] as number) + 1
    const cache = caches[worker] as Set<number>
    let cached = 0
    while (cached < groups.length && cache.has(groups[cached] as number)) cached += 1
    for (let i = groups.length - 1; i >= 0; i--) {
      const group = groups[i] as number
      if (!cache.delete(group)) {
        let set = holders.get(group)
        if (set === undefined) holders.set(group, (set = new Set()))
        set.add(worker)
      }
      cache.add(group)
    }
    const removed: number[] = []
    for (const group of cache) {
      if (cache.size <= groupsMax) break
      cache.delete(group)
      holders.get(group)?.delete(worker)
      removed.push(group)
    }
    return {
      worker,
      groups,
      cachedGroups: cached,
      bestGroups: best,
      removed: Int32Array.from(removed),
    }
  })
}

/** Digest over all decisions, to compare with other runs. */
export function digestOf(requests: readonly Request[], chains: Chains): string {
  const pairs = new BigUint64Array(chains.sequence.buffer)
  let digest = 0n
  const add = (value: bigint): void => {
    digest = splitmix64(digest ^ value)
  }
  for (const { groups, worker, cachedGroups, bestGroups, removed } of requests) {
    const last = groups[groups.length - 1] as number
    for (const value of [groups.length * 32, worker, cachedGroups * 32, bestGroups * 32]) {
      add(BigInt(value))
    }
    add(BigInt(removed.length * 32))
    add(pairs[GROUP_BLOCKS * last + GROUP_BLOCKS - 1] as bigint)
  }
  for (const { removed } of requests) {
    for (const group of removed) {
      for (let j = GROUP_BLOCKS - 1; j >= 0; j--) add(pairs[GROUP_BLOCKS * group + j] as bigint)
    }
  }
  return digest.toString(16).padStart(16, '0')
}
