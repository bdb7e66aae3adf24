/**
 * Collections of requests in flight, by key (`InFlightMap`) or as a set (`InFlightSet`), where each entry lives
 * briefly.
 *
 * A plain `Map` or `Set` is expensive for the garbage collector in this use: V8 allocates a new table every few dozen
 * changes, and each old table points to the next one. Once one of them has been promoted to the old generation, all
 * later tables survive with everything that they ever held, until the next full collection. Here the map contains
 * only numbers, and the values are in arrays whose slots are reused.
 */
export class InFlightMap<Key, Value> {
  readonly #places = new Map<Key, number>()
  readonly #values: (Value | undefined)[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#places.size
  }

  has(key: Key): boolean {
    return this.#places.has(key)
  }

  get(key: Key): Value | undefined {
    const place = this.#places.get(key)
    return place === undefined ? undefined : this.#values[place]
  }

  set(key: Key, value: Value): void {
    const place = this.#places.get(key) ?? this.#free.pop() ?? this.#values.length
    this.#places.set(key, place)
    this.#values[place] = value
  }

  /** Returns whether the key was present. */
  delete(key: Key): boolean {
    const place = this.#places.get(key)
    if (place === undefined) return false
    this.#places.delete(key)
    this.#values[place] = undefined
    this.#free.push(place)
    return true
  }

  clear(): void {
    this.#places.clear()
    this.#values.length = 0
    this.#free.length = 0
  }

  /** A snapshot of the values, unordered; entries may be added and removed during iteration. */
  values(): Value[] {
    return [...this.#places.values()].map((place) => this.#values[place] as Value)
  }
}

/** An item that can be in at most one `InFlightSet` at a time. */
export interface InFlight {
  /** Its index in the set; -1: in none. */
  place: number
}

export class InFlightSet<Item extends InFlight> {
  readonly #items: Item[] = []

  get size(): number {
    return this.#items.length
  }

  add(item: Item): void {
    if (item.place !== -1) return
    item.place = this.#items.length
    this.#items.push(item)
  }

  /** Idempotent. */
  delete(item: Item): void {
    const { place } = item
    if (place === -1 || this.#items[place] !== item) return
    const last = this.#items.pop() as Item
    if (last !== item) {
      this.#items[place] = last
      last.place = place
    }
    item.place = -1
  }

  /** A snapshot of the items, unordered; items may be added and removed during iteration. */
  values(): Item[] {
    return [...this.#items]
  }
}
