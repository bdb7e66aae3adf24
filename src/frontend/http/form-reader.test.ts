import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formParts } from './form-parts.ts'
import { FormReader } from './form-reader.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)
const latin1 = (bytes: Uint8Array) => String.fromCharCode(...bytes)

interface Read {
  readonly name: string
  readonly fileName: string | undefined
  value: string
}

function read(form: Uint8Array, boundary: string, cuts: readonly number[]): [Read[], boolean] {
  const parts: Read[] = []
  const reader = new FormReader(boundary, {
    onPart: ({ name, fileName }) => parts.push({ name, fileName, value: '' }),
    onData: (bytes) => {
      const last = parts.at(-1)
      if (last !== undefined) last.value += latin1(bytes)
    },
  })
  let from = 0
  for (const cut of [...cuts.toSorted((a, b) => a - b), form.length]) {
    reader.push(form.slice(from, cut))
    from = cut
  }
  return [parts, reader.isWhole]
}

const wholeParts = (form: Uint8Array, boundary: string): Read[] =>
  formParts(form, boundary).map(({ name, fileName, valueStart, valueEnd }) => ({
    name,
    fileName,
    value: latin1(form.subarray(valueStart, Math.max(valueStart, valueEnd))),
  }))

const FORMS = {
  'a file and a purpose':
    '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a\\"b.jsonl"\r\nContent-Type: x\r\n\r\n{"a":1}\n{"b":"--b"}\r\n\r\n--b--\r\n',
  'an empty file': '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n\r\n--b--',
  'a file without a line': '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n--b--',
  'line feeds only': '--b\nContent-Disposition: form-data; name=file\n\nx\n\n--b--\n',
  'text before and behind':
    'before --b\r\n--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx--b\r\n -\r\n--b--\r\n--b\r\nafter',
  'a boundary that repeats itself':
    '--b\r\nContent-Disposition: form-data; name="f"\r\n\r\n\r\n\r\n-\r\n--\r\n\r\n--b--',
} as const

describe('a form that is read in pieces', () => {
  it.each(Object.entries(FORMS))(
    '%s - cut at every position, the result is that of the whole form',
    (_what, text) => {
      const form = bytesOf(text)
      const expected = wholeParts(form.subarray(0, text.indexOf('--b--') + 5), 'b')
      for (let at = 0; at <= form.length; at++) {
        expect(read(form, 'b', [at]), String(at)).toEqual([expected, true])
      }
      expect(
        read(
          form,
          'b',
          Array.from(form, (_, at) => at),
        ),
      ).toEqual([expected, true])
    },
  )

  it('any bytes - the result is the same wherever they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('\r', '\n', '-', '--b', 'b', 'x', '\r\n--b\r'), { maxLength: 30 }),
        fc.array(fc.nat(100)),
        (inside, cuts) => {
          const head = '--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
          const form = bytesOf(`${head}${inside.join('')}\r\n--b--`)
          const once = read(form, 'b', [])
          expect(
            read(
              form,
              'b',
              cuts.map((cut) => cut % form.length),
            ),
          ).toEqual(once)
        },
      ),
    )
  })

  it('a form that is cut off - is incomplete', () => {
    const form = bytesOf(FORMS['a file and a purpose'])
    const end = FORMS['a file and a purpose'].lastIndexOf('--b--') + 5
    for (let at = 0; at < end; at++) expect(read(form.subarray(0, at), 'b', [])[1]).toBe(false)
  })

  it('the head of a part - may have up to 8 KiB', () => {
    const of = (length: number) =>
      read(bytesOf(`--b\r\nX: ${'x'.repeat(length)}\r\n\r\nv\r\n--b--`), 'b', [100])
    expect(of(8000)[1]).toBe(true)
    expect(() => of(8200)).toThrow('longer than 8192')
  })
})
