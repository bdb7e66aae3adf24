/** A small set of UTF-16 units, to check quickly that a token's text contains none of them. */
export class UnitSet {
  readonly #ascii = new Uint8Array(128)
  readonly #others = new Set<number>()

  add(unit: number): void {
    if (unit < 128) this.#ascii[unit] = 1
    else this.#others.add(unit)
  }

  has(unit: number): boolean {
    return unit < 128 ? this.#ascii[unit] === 1 : this.#others.has(unit)
  }

  occursIn(text: string): boolean {
    for (let i = 0; i < text.length; i++) if (this.has(text.charCodeAt(i))) return true
    return false
  }
}
