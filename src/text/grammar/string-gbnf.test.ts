import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { seededDraw } from '../../../test/text/seeded-draw.ts'
import { guidedGrammar } from './guided-grammar.ts'

function language(schema: unknown): GbnfLanguage {
  return new GbnfLanguage(guidedGrammar({ kind: 'json-schema', schema }))
}

const FORMAT_CHECKS: Readonly<Record<string, (text: string) => boolean>> = {
  date: (text) => z.iso.date().safeParse(text).success,
  time: (text) => /^\d\d:\d\d:\d\d/.test(text) && !Number.isNaN(Date.parse(`2020-01-01T${text}`)),
  'date-time': (text) => z.iso.datetime({ offset: true }).safeParse(text).success,
  duration: (text) => z.iso.duration().safeParse(text).success,
  email: (text) => z.email().safeParse(text).success,
  hostname: (text) => z.hostname().safeParse(text).success,
  ipv4: (text) => z.ipv4().safeParse(text).success,
  ipv6: (text) => z.ipv6().safeParse(text).success,
  uri: (text) => z.url().safeParse(text).success && !/[^!-~]|%(?![0-9A-F]{2})/.test(text),
  uuid: (text) => z.uuid().safeParse(text).success,
}

describe('strings of a schema to grammar', () => {
  it.each([
    'date',
    'time',
    'date-time',
    'duration',
    'email',
    'hostname',
    'ipv4',
    'ipv6',
    'uri',
    'uuid',
  ])('format %s - its form is kept', (format) => {
    const own = language({ type: 'string', format })
    const isValid = FORMAT_CHECKS[format] ?? (() => false)
    const { random } = seededDraw(format)
    for (let i = 0; i < 50; i++) {
      const value: unknown = JSON.parse(own.draw(random))
      expect([value, isValid(String(value))]).toEqual([value, true])
    }
  })

  it.each([
    [0, 250],
    [1, 2083],
    [99, 301],
    [150, 250],
    [250, 250],
    [200, undefined],
    [0, 100_000],
    [0, 1_000_000],
  ])('lengths from %i to %s - exactly those', (minLength, maxLength) => {
    const own = language({ type: 'string', minLength, maxLength })
    const has = (length: number): boolean => own.has(JSON.stringify('é'.repeat(length)))
    const most = Math.min(maxLength ?? 2000, 2100)
    for (const length of [minLength, minLength + 1, minLength + 100, most - 1, most]) {
      const holds = length >= minLength && length <= (maxLength ?? Infinity)
      expect([length, has(length)]).toEqual([length, holds])
    }
    if (minLength > 0) expect(has(minLength - 1)).toBe(false)
    if (maxLength === most) expect(has(maxLength + 1)).toBe(false)
  })

  it('URIs - with the lengths that Pydantic asks for, and what it writes', () => {
    const own = language({ type: 'string', format: 'uri', minLength: 1, maxLength: 2083 })
    for (const text of [
      'https://example.com',
      'http://a.example.org:8080/x/y.html?q=a%20b&r=1#top',
      'mailto:someone@example.com',
      'urn:isbn:0451450523',
    ]) {
      expect([text, own.has(JSON.stringify(text))]).toEqual([text, true])
    }
    for (const text of ['', 'example', 'https://', 'http://exa mple.com', 'https://a.com/%zz']) {
      expect([text, own.has(JSON.stringify(text))]).toEqual([text, false])
    }
  })

  it('an unknown format - is only descriptive', () => {
    expect(language({ type: 'string', format: 'colour' }).has('"red"')).toBe(true)
    expect(language({ type: 'string', format: 'date', maxLength: 10 }).has('"abc"')).toBe(false)
  })

  it.each([
    ['^[a-z]+$', 2, 5],
    ['^[a-z][a-z0-9-]*[a-z0-9]$', 0, 63],
    ['^(x+|y{3,}|[0-9]{9})$', 4, 6],
    ['^[A-Z]{2}(-\\d{1,4}){1,9}$', 10, 12],
    ['^([a-z]+\\.)+[a-z]+$', 8, 20],
    ['^a*b*c*$', 5, 5],
    ['', 0, 3],
  ])('pattern %s with lengths from %i to %i - both hold', (pattern, minLength, maxLength) => {
    const own = language({ type: 'string', pattern, minLength, maxLength })
    const { random } = seededDraw(pattern)
    const lengths = new Set<number>()
    for (let i = 0; i < 60; i++) {
      const value = String(JSON.parse(own.draw(random)))
      expect(value).toMatch(new RegExp(pattern))
      lengths.add(value.length)
    }
    expect(Math.min(...lengths)).toBeGreaterThanOrEqual(minLength)
    expect(Math.max(...lengths)).toBeLessThanOrEqual(maxLength)
  })
})
