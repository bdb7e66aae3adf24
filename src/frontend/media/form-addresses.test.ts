import { expect, it } from 'vitest'
import { readForwardBody } from '../forward/forward-body.ts'

type Part = readonly [head: string, value: string]

const form = (parts: readonly Part[]) =>
  new TextEncoder().encode(
    `${parts.map(([head, value]) => `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`).join('')}--b--`,
  )
const mediaOf = (...parts: readonly Part[]) =>
  readForwardBody(form(parts), 'multipart/form-data; boundary=b', '/v1/images/edits').media()

it.each([
  ['a file', ['name="image"; filename="a.png"', 'http://not.an/address']],
  ['a prompt that is an address', ['name="prompt"', 'http://a.b']],
  ['a word', ['name="size"', 'auto: 5']],
] as const)('a form with %s - is forwarded', (_what, part) => {
  expect(mediaOf(['name="model"', 'm'], part)).toEqual([])
})

it.each(['http://a.b', ' \thttps://a.b', 'FILE:///etc/passwd', 's3://a/b'])(
  'a form with %j as a field - is refused, and the field is named',
  (value) => {
    expect(() => mediaOf(['name="model"', 'm'], ['name="url"', value])).toThrow(
      /^`url`: addresses in a form/,
    )
  },
)
