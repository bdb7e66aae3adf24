import { expect, it } from 'vitest'
import { base64Facts } from './base64.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)

it.each([
  ['', 0],
  ['QQ==', 1],
  ['QQ', 1],
  ['QUI=', 2],
  ['QUJD', 3],
  ['QU\r\nJD\n', 3],
  ['_-_-', 3],
  ['Q', null],
  ['QQ=Q', null],
  ['QQ===', null],
  ['Q*==', null],
])('base64 %j has %s bytes', (text, length) => {
  expect(base64Facts(bytesOf(text))?.byteLength ?? null).toBe(length)
})
