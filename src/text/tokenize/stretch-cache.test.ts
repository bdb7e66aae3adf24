import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { modelTextFromHuggingFace } from '../model/model-text.ts'
import { StretchCache } from './pieces/stretch-cache.ts'
import { TokenBuffer } from './pieces/token-buffer.ts'
import { isBetweenWords } from './pieces/word-cuts.ts'

function keep(cache: StretchCache, text: string, ids: readonly number[]): void {
  const buffer = new TokenBuffer(4)
  buffer.push(99)
  for (const id of ids) buffer.push(id)
  cache.keep(text, buffer, 1)
}

describe('a repeated stretch of text', () => {
  it('gets the same ids from the cache, from 1,024 characters on', () => {
    const cache = new StretchCache()
    const [below, at] = ['a'.repeat(1023), 'é😀'.repeat(400)]
    keep(cache, below, [1])
    keep(cache, at, [1, 2, 3])
    expect(cache.get(below)).toBeUndefined()
    expect(cache.get(`${at} `.slice(0, at.length))).toEqual(Uint32Array.of(1, 2, 3))
    expect(cache.get(`${at}b`)).toBeUndefined()
  })

  it('keeps a byte order mark at its beginning', () => {
    const cache = new StretchCache()
    const marked = `\uFEFF${'a'.repeat(1024)}`
    keep(cache, marked, [7])
    expect(cache.get(marked)).toEqual(Uint32Array.of(7))
    expect(cache.get(marked.slice(1))).toBeUndefined()
  })

  it('that differs from others in a single character has its own ids', () => {
    const cache = new StretchCache()
    const text = (at: number): string => `${'a'.repeat(at)}b${'a'.repeat(2000 - at)}`
    const places = [0, 1, 999, 1000, 1001, 1999, 2000]
    for (const at of places) keep(cache, text(at), [at])
    for (const at of places) expect(cache.get(text(at))).toEqual(Uint32Array.of(at))
    expect(cache.get(text(500))).toBeUndefined()
  })

  it('is dropped after two generations of other text, and kept while it is used', () => {
    const cache = new StretchCache()
    const text = (seed: number): string => String.fromCharCode(97 + seed).repeat(700_000)
    keep(cache, text(0), [0])
    keep(cache, text(1), [1])
    for (const seed of [2, 3, 4]) {
      keep(cache, text(seed), [seed])
      expect(cache.get(text(0))).toEqual(Uint32Array.of(0))
    }
    for (const seed of [5, 6, 7, 8, 9]) keep(cache, text(seed), [seed])
    expect(cache.get(text(0))).toBeUndefined()
    expect(cache.get(text(9))).toEqual(Uint32Array.of(9))
  })

  it('is not cached if it is too long for a generation', () => {
    const cache = new StretchCache()
    const text = 'a'.repeat(1_500_001)
    keep(cache, text, [1])
    expect(cache.get(text)).toBeUndefined()
  })

  it('that has grown at its end is encoded from its last part on', () => {
    const cache = new StretchCache()
    const encoded: string[] = []
    const idsOf = (text: string): Uint32Array => {
      const ids = new TokenBuffer()
      const encode = (part: string, to: TokenBuffer): void => {
        encoded.push(part)
        for (let i = 0; i < part.length; i++) to.push(part.charCodeAt(i))
      }
      cache.encode(text, ids, encode, isBetweenWords)
      return ids.finish()
    }
    const first = 'User: tell me of the fox and the hen. '.repeat(1000)
    const second = `${first}Assistant: once upon a time there was a fox. User: and then?`
    expect(String.fromCharCode(...idsOf(first))).toBe(first)
    const parts = encoded.splice(0)
    expect(parts.length).toBeGreaterThan(3)
    expect(String.fromCharCode(...idsOf(second))).toBe(second)
    expect(encoded.join('').length).toBeLessThan(10_000)
    expect(second.endsWith(encoded.join(''))).toBe(true)
  })

  it('a tokenizer gives the same ids again, between control tokens and alone', () => {
    const readJson = (name: string): unknown =>
      JSON.parse(
        readFileSync(new URL(`../../../models/storyteller/${name}`, import.meta.url), 'utf8'),
      )
    const files = {
      tokenizer: readJson('tokenizer.json'),
      tokenizerConfig: readJson('tokenizer_config.json'),
    }
    const { tokenizer } = modelTextFromHuggingFace(files)
    const long = 'Once upon a time a fox ate 12 pies. Ça va? 😀 \n\n'.repeat(40)
    const options = { special: true }
    for (const text of [long, `<|im_start|>user\n${long}<|im_end|>\n${long}`, `${long} `]) {
      const fresh = modelTextFromHuggingFace(files).tokenizer.encode(text, options)
      expect(tokenizer.encode(text, options)).toEqual(fresh)
      expect(tokenizer.encode(text, options)).toEqual(fresh)
      expect(tokenizer.decode(fresh)).toBe(text)
    }
  })
})
