/**
 * What is in flight, by key or as a set, where each entry lives for one request.
 *
 * A `Map` or `Set` costs the garbage collector dearly there: V8 gives it a new table every few dozen changes, and each old
 * table points to the next one. Once one of them has grown old, every later table survives with all that it ever held,
 * until the next full collection: each young collection copies whole requests that have long ended. Here the map holds
 * numbers only, and what they stand for lies in arrays whose places are used again.
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

  /** Returns whether it was there. */
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

  /** Those of now, in no order: entries may come and go while they are looked at. */
  values(): Value[] {
    return [...this.#places.values()].map((place) => this.#values[place] as Value)
  }
}

/** What can be in one `InFlightSet` at a time. */
export interface InFlight {
  /** Of the set; -1: in none. */
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

  /** Those of now, in no order: items may come and go while they are looked at. */
  values(): Item[] {
    return [...this.#items]
  }
}
