/**
 * Counts which prefixes are held by which slots: active requests on a rank, or prompts that were routed to it. A
 * block counts once per slot, until the last prompt of the slot that contains it is removed.
 *
 * A radix tree over sequence hashes. A node is a run of blocks; its holders are the slots (ranks) with at least one
 * prompt through the whole run, with the number of such prompts. A prompt always ends at the end of a node (runs are
 * split for this), so a holder of a node holds all its ancestors, and inserting or removing costs one step per node,
 * not per block.
 *
 *   root ── [b0 b1 b2] slot 0: 2, slot 1: 1 ──┬── [b3 b4] slot 0: 1
 *                                             └── [c3]    slot 0: 1
 *
 * Weights: blocks of a prompt can be made to count less (`weigh`), but only those that no other prompt of the slot
 * shares.
 */
import { freeMemory } from '../../base/index.ts'
import type { PrefixMatches } from '../prefix/prefix-matches.ts'

/**
 * Most nodes are leaves with one holder, and an index has tens of thousands of them: the first holder is part of the
 * node, and arrays and maps exist only where there are several holders or children.
 */
export class HeldPrefixNode {
  parent: HeldPrefixNode | null
  /** Sequence hashes (pairs of u32) of this run only. */
  hashes: Uint32Array<ArrayBuffer>
  /** By the first word of their hashes. Null: there are none. */
  children: Map<number, HeldPrefixNode | HeldPrefixNode[]> | null = null
  /** The first holder; -1: there is none. */
  slot = -1
  #refs = 0
  #weight = 1
  #others: Holders | null = null

  constructor(parent: HeldPrefixNode | null, hashes: Uint32Array<ArrayBuffer>) {
    this.parent = parent
    this.hashes = hashes
  }

  get blockCount(): number {
    return this.hashes.length / 2
  }

  get isHeld(): boolean {
    return this.slot !== -1
  }

  /** The slots of all holders but the first one. */
  get otherSlots(): readonly number[] {
    return this.#others === null ? NOBODY : this.#others.slots
  }

  /** The place of a holder for the methods below; -1: it holds nothing. */
  placeOf(slot: number): number {
    if (slot === this.slot) return 0
    return this.#others === null ? -1 : this.#others.placeOf(slot) + 1 || -1
  }

  /** Number of the holder's prompts through this run. */
  refsAt(place: number): number {
    return place === 0 ? this.#refs : (this.#others?.refs[place - 1] as number)
  }

  weightAt(place: number): number {
    return place === 0 ? this.#weight : (this.#others?.weights[place - 1] as number)
  }

  setRefs(place: number, refs: number): void {
    if (place === 0) this.#refs = refs
    else if (this.#others !== null) this.#others.refs[place - 1] = refs
  }

  setWeight(place: number, weight: number): void {
    if (place === 0) this.#weight = weight
    else if (this.#others !== null) this.#others.weights[place - 1] = weight
  }

  addHolder(slot: number, refs: number, weight: number): void {
    if (this.slot === -1) {
      this.slot = slot
      this.#refs = refs
      this.#weight = weight
    } else (this.#others ??= new Holders()).add(slot, refs, weight)
  }

  removeHolder(place: number): void {
    const others = this.#others
    if (place > 0) others?.remove(place - 1)
    else if (others === null) this.slot = -1
    else {
      this.slot = others.slots[0] as number
      this.#refs = others.refs[0] as number
      this.#weight = others.weights[0] as number
      others.remove(0)
    }
    if (others?.slots.length === 0) this.#others = null
  }

  /** A node with the same holders. */
  withHolders(hashes: Uint32Array<ArrayBuffer>): HeldPrefixNode {
    const copy = new HeldPrefixNode(this.parent, hashes)
    copy.slot = this.slot
    copy.#refs = this.#refs
    copy.#weight = this.#weight
    this.#others?.slots.forEach((slot, place) => {
      copy.addHolder(slot, this.refsAt(place + 1), this.weightAt(place + 1))
    })
    return copy
  }
}

class Holders {
  readonly slots: number[] = []
  readonly refs: number[] = []
  readonly weights: number[] = []
  #places: Map<number, number> | null = null

  placeOf(slot: number): number {
    if (this.#places === null) return this.slots.indexOf(slot)
    return this.#places.get(slot) ?? -1
  }

  add(slot: number, refs: number, weight: number): void {
    this.slots.push(slot)
    this.refs.push(refs)
    this.weights.push(weight)
    if (this.#places !== null) this.#places.set(slot, this.slots.length - 1)
    else if (this.slots.length > INDEXED_ABOVE) {
      this.#places = new Map(this.slots.map((held, place) => [held, place]))
    }
  }

  remove(place: number): void {
    const slot = this.slots[place] as number
    const last = this.slots.length - 1
    const moved = this.slots[last] as number
    this.slots[place] = moved
    this.refs[place] = this.refs[last] as number
    this.weights[place] = this.weights[last] as number
    this.slots.pop()
    this.refs.pop()
    this.weights.pop()
    if (this.#places === null) return
    this.#places.set(moved, place)
    this.#places.delete(slot)
  }
}

/** Shared and never modified. */
const NOBODY: readonly number[] = []
/** With fewer holders a linear scan is faster than a map. */
const INDEXED_ABOVE = 16

export class HeldPrefixTree {
  readonly #root = new HeldPrefixNode(null, new Uint32Array(0))
  #blocks = 0
  #slots = 0

  /** Number of distinct blocks. */
  get blocks(): number {
    return this.#blocks
  }

  /**
   * Inserts one prompt of `slot`. `added`: number of blocks that are new for the slot. Pass `node` to `remove` and
   * `weigh`.
   */
  insert(hashes: Uint32Array, slot: number): { node: HeldPrefixNode; added: number } {
    if (slot >= this.#slots) this.#slots = slot + 1
    let node = this.#root
    let added = 0
    let at = 0
    while (at < hashes.length) {
      const child = findChild(node, hashes, at)
      if (child === null) {
        const tail = new HeldPrefixNode(node, hashes.slice(at))
        addChild(node, tail)
        tail.addHolder(slot, 1, 1)
        this.#blocks += tail.blockCount
        return { node: tail, added: added + tail.blockCount }
      }
      const matched = matchedBlocks(child, hashes, at)
      node = matched < child.blockCount ? splitNode(child, matched) : child
      added += hold(node, slot)
      at += 2 * matched
    }
    return { node, added }
  }

  /** Removes one prompt that ends at `node`; returns by how much the (weighted) block count of the slot falls. */
  remove(node: HeldPrefixNode, slot: number): number {
    let freed = 0
    let at: HeldPrefixNode = node
    while (at.parent !== null) {
      const place = at.placeOf(slot)
      const refs = at.refsAt(place) - 1
      const { parent } = at
      if (refs > 0) at.setRefs(place, refs)
      else {
        freed += at.blockCount * at.weightAt(place)
        at.removeHolder(place)
        if (!at.isHeld) {
          removeChild(parent, at)
          this.#blocks -= at.blockCount
          // Each node has hashes of its own. Those of a long prompt are as large as a body.
          freeMemory(at.hashes.buffer)
        }
      }
      at = parent
    }
    return freed
  }

  /**
   * Sets the weight of the suffix that only this prompt of the slot holds; returns by how much the slot's count
   * changes.
   */
  weigh(node: HeldPrefixNode, slot: number, weight: number): number {
    let change = 0
    for (let at: HeldPrefixNode = node; at.parent !== null; at = at.parent) {
      const place = at.placeOf(slot)
      if (place === -1 || at.refsAt(place) !== 1) break
      change += at.blockCount * (weight - at.weightAt(place))
      at.setWeight(place, weight)
    }
    return change
  }

  /** Writes the number of shared leading blocks for every slot that shares any; other entries of `out` are unchanged. */
  depths(hashes: Uint32Array, out: Int32Array): void {
    this.#descend(hashes, (first, others, depth) => {
      out[first] = depth
      for (let i = 0; i < others.length; i++) out[others[i] as number] = depth
    })
  }

  /** The same as a prefix index result, as device blocks. */
  find(hashes: Uint32Array, matches: PrefixMatches): void {
    matches.clear()
    matches.reserve(this.#slots)
    const { device } = matches
    const found = (slot: number, depth: number): void => {
      if (device[slot] === 0) matches.add(slot)
      device[slot] = depth
    }
    this.#descend(hashes, (first, others, depth) => {
      found(first, depth)
      for (const slot of others) found(slot, depth)
    })
  }

  /** Raises the result of another index to what is held here; only for a result without host and disk tiers. */
  raise(hashes: Uint32Array, matches: PrefixMatches): void {
    matches.reserve(this.#slots)
    const { device, holders } = matches
    this.#descend(hashes, (first, others, depth) => {
      let { count } = matches
      for (let i = -1; i < others.length; i++) {
        const slot = i < 0 ? first : (others[i] as number)
        const known = device[slot] as number
        if (depth <= known) continue
        if (known === 0) holders[count++] = slot
        device[slot] = depth
      }
      matches.count = count
    })
  }

  /**
   * Visits the nodes that share a prefix with `hashes`, from the root, with their first holder, the other holders and
   * the number of shared blocks.
   */
  #descend(
    hashes: Uint32Array,
    visit: (first: number, others: readonly number[], depth: number) => void,
  ): void {
    let node = this.#root
    let at = 0
    while (at < hashes.length) {
      const child = findChild(node, hashes, at)
      if (child === null) return
      const matched = matchedBlocks(child, hashes, at)
      at += 2 * matched
      visit(child.slot, child.otherSlots, at / 2)
      if (matched < child.blockCount) return
      node = child
    }
  }

  get isEmpty(): boolean {
    return (this.#root.children?.size ?? 0) === 0
  }
}

const keyAt = (hashes: Uint32Array, at: number): number => (hashes[at] as number) | 0

function findChild(node: HeldPrefixNode, hashes: Uint32Array, at: number): HeldPrefixNode | null {
  const found = node.children?.get(keyAt(hashes, at))
  if (found === undefined) return null
  if (found instanceof HeldPrefixNode) return startsWith(found, hashes, at) ? found : null
  for (const child of found) if (startsWith(child, hashes, at)) return child
  return null
}

function startsWith(child: HeldPrefixNode, hashes: Uint32Array, at: number): boolean {
  return child.hashes[0] === hashes[at] && child.hashes[1] === hashes[at + 1]
}

function addChild(node: HeldPrefixNode, child: HeldPrefixNode): void {
  const key = keyAt(child.hashes, 0)
  const children = (node.children ??= new Map())
  const before = children.get(key)
  if (before === undefined) children.set(key, child)
  else if (before instanceof HeldPrefixNode) children.set(key, [before, child])
  else before.push(child)
}

function removeChild(node: HeldPrefixNode, child: HeldPrefixNode): void {
  const key = keyAt(child.hashes, 0)
  const { children } = node
  const found = children?.get(key)
  if (found === child) children?.delete(key)
  if (!Array.isArray(found)) return
  const [first, ...more] = found.filter((other) => other !== child)
  if (first === undefined) children?.delete(key)
  else children?.set(key, more.length === 0 ? first : [first, ...more])
}

function matchedBlocks(node: HeldPrefixNode, hashes: Uint32Array, at: number): number {
  const own = node.hashes
  const words = Math.min(own.length, hashes.length - at)
  let i = 0
  while (i < words && own[i] === hashes[at + i]) i++
  return i >> 1
}

/**
 * Splits a run and returns the new upper half; the lower half stays the same object, so references to ends stay
 * valid.
 */
function splitNode(node: HeldPrefixNode, blocks: number): HeldPrefixNode {
  const parent = node.parent as HeldPrefixNode
  const upper = node.withHolders(node.hashes.slice(0, 2 * blocks))
  removeChild(parent, node)
  addChild(parent, upper)
  node.parent = upper
  node.hashes = node.hashes.slice(2 * blocks)
  addChild(upper, node)
  return upper
}

/** Adds one prompt of the slot to a node; returns by how much the slot's count grows. An existing weight is kept. */
function hold(node: HeldPrefixNode, slot: number): number {
  const place = node.placeOf(slot)
  if (place === -1) {
    node.addHolder(slot, 1, 1)
    return node.blockCount
  }
  node.setRefs(place, node.refsAt(place) + 1)
  return 0
}
