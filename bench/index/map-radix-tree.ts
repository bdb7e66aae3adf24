/**
 * The baseline: a straightforward radix tree of `Map` and `Set`, with one node per block.
 */
interface Node {
  readonly children: Map<bigint, Node>
  readonly workers: Set<number>
  readonly parent: Node | null
  readonly hash: bigint
}

export class MapRadixTree {
  readonly #root: Node = { children: new Map(), workers: new Set(), parent: null, hash: 0n }
  readonly #lookup: Map<bigint, Node>[]
  entries = 0

  constructor(workers: number) {
    this.#lookup = Array.from({ length: workers }, () => new Map())
  }

  store(worker: number, parent: bigint | null, hashes: readonly bigint[]): void {
    const lookup = this.#lookup[worker] as Map<bigint, Node>
    const first = parent === null ? this.#root : lookup.get(parent)
    if (first === undefined) throw new Error('parent not found')
    let node: Node = first
    for (const hash of hashes) {
      let child: Node | undefined = node.children.get(hash)
      if (child === undefined) {
        child = { children: new Map(), workers: new Set(), parent: node, hash }
        node.children.set(hash, child)
      }
      if (!child.workers.has(worker)) this.entries += 1
      child.workers.add(worker)
      lookup.set(hash, child)
      node = child
    }
  }

  remove(worker: number, hashes: readonly bigint[]): void {
    const lookup = this.#lookup[worker] as Map<bigint, Node>
    for (const hash of hashes) {
      const node = lookup.get(hash)
      if (node === undefined) continue
      lookup.delete(hash)
      node.workers.delete(worker)
      this.entries -= 1
      if (node.workers.size === 0 && node.children.size === 0) {
        node.parent?.children.delete(node.hash)
      }
    }
  }

  find(hashes: readonly bigint[]): Map<number, number> {
    const scores = new Map<number, number>()
    let node = this.#root
    let active: Set<number> | undefined
    let depth = 0
    for (const hash of hashes) {
      const child = node.children.get(hash)
      if (child === undefined) break
      if (active === undefined) active = new Set(child.workers)
      else {
        for (const worker of active) {
          if (child.workers.has(worker)) continue
          scores.set(worker, depth)
          active.delete(worker)
        }
      }
      if (active.size === 0) break
      depth += 1
      node = child
    }
    for (const worker of active ?? []) scores.set(worker, depth)
    return scores
  }
}
