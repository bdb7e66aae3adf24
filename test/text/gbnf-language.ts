/**
 * The language of a GBNF grammar, for tests: parses the notation as llama.cpp does, generates random texts of the
 * language, and decides whether a text belongs to it. Shares no code with the generators of grammars.
 */
type Node =
  | {
      readonly kind: 'class'
      readonly negated: boolean
      readonly ranges: readonly [number, number][]
    }
  | { readonly kind: 'rule'; readonly name: string }
  | { readonly kind: 'sequence'; readonly parts: readonly Node[] }
  | { readonly kind: 'choice'; readonly options: readonly Node[] }
  | { readonly kind: 'repeat'; readonly part: Node; readonly least: number; readonly most: number }

export class GbnfLanguage {
  readonly #rules = new Map<string, Node>()
  #text = ''
  #at = 0

  constructor(gbnf: string) {
    this.#text = gbnf
    this.#skip(true)
    while (this.#at < gbnf.length) {
      const name = this.#match(/[a-zA-Z0-9-]+/y)
      this.#skip(false)
      this.#match(/::=/y)
      this.#skip(true)
      if (this.#rules.has(name)) throw new Error(`rule ${name} is defined twice`)
      this.#rules.set(name, this.#choice(false))
      this.#skip(true)
    }
    for (const node of this.#rules.values()) this.#check(node)
    if (!this.#rules.has('root')) throw new Error('no root')
  }

  /** Once the text has more than `lengthMax` characters, the shortest derivations are chosen. */
  draw(random: () => number, lengthMax = 80): string {
    const out: number[] = []
    const walk = (node: Node, depth: number): void => {
      if (depth > 600) throw new Error('a text without end')
      const isLong = out.length > lengthMax || depth > 60
      switch (node.kind) {
        case 'class':
          out.push(this.#drawCharacter(node, random))
          return
        case 'rule':
          walk(this.#rule(node.name), depth + 1)
          return
        case 'sequence':
          for (const part of node.parts) walk(part, depth + 1)
          return
        case 'choice': {
          const options = isLong ? this.#shortest(node.options) : node.options
          const option = options[Math.floor(random() * options.length)]
          if (option !== undefined) walk(option, depth + 1)
          return
        }
        case 'repeat': {
          const extra = isLong
            ? 0
            : Math.floor(random() ** 2 * Math.min(node.most - node.least + 1, 6))
          for (let i = 0; i < node.least + extra; i++) walk(node.part, depth + 1)
        }
      }
    }
    walk(this.#rule('root'), 0)
    return String.fromCodePoint(...out)
  }

  has(text: string): boolean {
    const codes = Array.from(text, (character) => character.codePointAt(0) ?? 0)
    const known = new Map<Node, Map<number, Set<number>>>()
    const ends = (node: Node, at: number): Set<number> => {
      let ofNode = known.get(node)
      if (ofNode === undefined) known.set(node, (ofNode = new Map()))
      let found = ofNode.get(at)
      if (found !== undefined) return found
      found = new Set()
      ofNode.set(at, found)
      for (const end of step(node, at)) found.add(end)
      return found
    }
    const after = (node: Node, from: Iterable<number>): Set<number> =>
      new Set([...from].flatMap((at) => [...ends(node, at)]))
    const step = (node: Node, at: number): Iterable<number> => {
      switch (node.kind) {
        case 'class': {
          const code = codes[at]
          if (code === undefined) return []
          const isIn = node.ranges.some(([first, last]) => first <= code && code <= last)
          return isIn === node.negated ? [] : [at + 1]
        }
        case 'rule':
          return ends(this.#rule(node.name), at)
        case 'sequence': {
          let places = new Set([at])
          for (const part of node.parts) places = after(part, places)
          return places
        }
        case 'choice':
          return node.options.flatMap((option) => [...ends(option, at)])
        case 'repeat': {
          const all = new Set<number>()
          let places = new Set([at])
          for (let count = 0; count <= node.most && places.size > 0; count++) {
            if (count >= node.least) {
              const fresh = [...places].filter((place) => !all.has(place))
              if (fresh.length === 0) break
              for (const place of fresh) all.add(place)
            }
            places = after(node.part, places)
          }
          return all
        }
      }
    }
    return ends(this.#rule('root'), 0).has(codes.length)
  }

  #rule(name: string): Node {
    const node = this.#rules.get(name)
    if (node === undefined) throw new Error(`no rule ${name}`)
    return node
  }

  #check(node: Node): void {
    if (node.kind === 'rule') this.#rule(node.name)
    else if (node.kind === 'sequence') node.parts.forEach((part) => this.#check(part))
    else if (node.kind === 'choice') node.options.forEach((option) => this.#check(option))
    else if (node.kind === 'repeat') {
      this.#check(node.part)
      // llama.cpp writes it as a rule that begins with the part and then itself, and refuses left recursion.
      if (node.most === Infinity && this.#mayBeEmpty(node.part))
        throw new Error('what is repeated without a limit may be empty')
    }
  }

  #mayBeEmpty(node: Node, open: ReadonlySet<string> = new Set()): boolean {
    switch (node.kind) {
      case 'class':
        return false
      case 'rule':
        return (
          !open.has(node.name) &&
          this.#mayBeEmpty(this.#rule(node.name), new Set([...open, node.name]))
        )
      case 'sequence':
        return node.parts.every((part) => this.#mayBeEmpty(part, open))
      case 'choice':
        return node.options.some((option) => this.#mayBeEmpty(option, open))
      case 'repeat':
        return node.least === 0 || this.#mayBeEmpty(node.part, open)
    }
  }

  readonly #heights = new Map<Node, number>()

  /**
   * Depth of the shallowest derivation; not exact inside recursive rules, which are only chosen less often for
   * that.
   */
  #height(node: Node, open = new Set<string>()): number {
    const known = this.#heights.get(node)
    if (known !== undefined) return known
    let height = 1
    if (node.kind === 'rule') {
      if (open.has(node.name)) return 1e6
      height = 1 + this.#height(this.#rule(node.name), new Set([...open, node.name]))
    } else if (node.kind === 'sequence')
      height = 1 + Math.max(0, ...node.parts.map((part) => this.#height(part, open)))
    else if (node.kind === 'choice')
      height = 1 + Math.min(...node.options.map((option) => this.#height(option, open)))
    else if (node.kind === 'repeat')
      height = node.least === 0 ? 1 : 1 + this.#height(node.part, open)
    if (height < 1e6) this.#heights.set(node, height)
    return height
  }

  #shortest(options: readonly Node[]): readonly Node[] {
    const heights = options.map((option) => this.#height(option))
    const least = Math.min(...heights)
    return options.filter((_, index) => heights[index] === least)
  }

  #drawCharacter(node: Extract<Node, { kind: 'class' }>, random: () => number): number {
    if (!node.negated) {
      const [first, last] = node.ranges[Math.floor(random() * node.ranges.length)] ?? [0, 0]
      return random() < 0.2 ? last : first + Math.floor(random() * (Math.min(last - first, 94) + 1))
    }
    const pool = Array.from('abz 09-_/{}[],:"\\\n\t<>é中🦊', (letter) => letter.codePointAt(0) ?? 0)
    const fine = pool.filter((code) => !node.ranges.some(([a, b]) => a <= code && code <= b))
    return fine[Math.floor(random() * fine.length)] ?? 0
  }

  #choice(isInside: boolean): Node {
    const options = [this.#sequence(isInside)]
    while (this.#text[this.#at] === '|') {
      this.#at++
      this.#skip(true)
      options.push(this.#sequence(isInside))
    }
    return options.length === 1 && options[0] !== undefined
      ? options[0]
      : { kind: 'choice', options }
  }

  #sequence(isInside: boolean): Node {
    const parts: Node[] = []
    for (;;) {
      const start = this.#text[this.#at]
      if (start === undefined || start === '|' || start === ')' || start === '\n') break
      let part = this.#atom()
      for (;;) {
        const bounds = this.#bounds()
        if (bounds === null) break
        part = { kind: 'repeat', part, ...bounds }
      }
      parts.push(part)
      this.#skip(isInside)
    }
    return { kind: 'sequence', parts }
  }

  #atom(): Node {
    const start = this.#text[this.#at]
    if (start === '(') {
      this.#at++
      this.#skip(true)
      const inside = this.#choice(true)
      this.#match(/\)/y)
      return inside
    }
    if (start === '"') {
      this.#at++
      const parts: Node[] = []
      while (this.#text[this.#at] !== '"') {
        const code = this.#character()
        parts.push({ kind: 'class', negated: false, ranges: [[code, code]] })
      }
      this.#at++
      return { kind: 'sequence', parts }
    }
    if (start === '[') return this.#class()
    return { kind: 'rule', name: this.#match(/[a-zA-Z0-9-]+/y) }
  }

  #class(): Node {
    this.#at++
    const negated = this.#text[this.#at] === '^'
    if (negated) this.#at++
    const ranges: [number, number][] = []
    while (this.#text[this.#at] !== ']') {
      const first = this.#character()
      let last = first
      if (this.#text[this.#at] === '-' && this.#text[this.#at + 1] !== ']') {
        this.#at++
        last = this.#character()
      }
      if (last < first) throw new Error('a range out of order')
      ranges.push([first, last])
    }
    this.#at++
    return { kind: 'class', negated, ranges }
  }

  #character(): number {
    const code = this.#text.codePointAt(this.#at)
    if (code === undefined) throw new Error('the text ends in a literal')
    if (code !== 0x5c) {
      this.#at += code > 0xffff ? 2 : 1
      return code
    }
    const escape = this.#match(/\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"[\]])/y)
    const kind = escape[1] ?? ''
    if ('xuU'.includes(kind)) return Number.parseInt(escape.slice(2), 16)
    const named: Readonly<Record<string, number>> = { t: 9, r: 13, n: 10 }
    return named[kind] ?? kind.codePointAt(0) ?? 0
  }

  #bounds(): { least: number; most: number } | null {
    const found = this.#maybe(/[*+?]|\{(\d+)(,?)(\d*)\}/y)
    if (found === null) return null
    if (found[0] === '*') return { least: 0, most: Infinity }
    if (found[0] === '+') return { least: 1, most: Infinity }
    if (found[0] === '?') return { least: 0, most: 1 }
    const [, least = '', comma, most = ''] = found
    if (comma === '') return { least: Number(least), most: Number(least) }
    return { least: Number(least), most: most === '' ? Infinity : Number(most) }
  }

  #skip(lineBreaks: boolean): void {
    this.#maybe(lineBreaks ? /(?:[ \t\r\n]|#[^\n]*)*/y : /(?:[ \t]|#[^\n]*)*/y)
  }

  #match(pattern: RegExp): string {
    const found = this.#maybe(pattern)
    if (found === null) throw new Error(`unexpected: ${this.#text.slice(this.#at, this.#at + 40)}`)
    return found[0]
  }

  #maybe(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)
    if (found !== null) this.#at += found[0].length
    return found
  }
}
