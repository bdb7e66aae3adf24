import { describe, expect, it } from 'vitest'
import { allowedOrigins, isDoneByForeignPage, namesThisMachine } from './foreign-page.ts'

const isAllowed = allowedOrigins(['https://chat.example'])
const EVIL = 'https://evil.example'

describe('isDoneByForeignPage', () => {
  it.each<[string, string, Record<string, string>, boolean]>([
    ['a program', 'POST', { host: 'localhost:8000' }, false],
    ['a page that reads', 'GET', { origin: EVIL, 'sec-fetch-site': 'cross-site' }, false],
    ['another origin', 'POST', { host: 'localhost:8000', origin: EVIL }, true],
    ['another origin that deletes', 'DELETE', { host: 'localhost:8000', origin: EVIL }, true],
    ['another origin, said twice', 'POST', { origin: EVIL, 'sec-fetch-site': 'cross-site' }, true],
    ['a frame without an origin', 'POST', { origin: 'null', 'sec-fetch-site': 'cross-site' }, true],
    ['a form that hides its origin', 'POST', { 'sec-fetch-site': 'cross-site' }, true],
    ['another name of the same site', 'POST', { 'sec-fetch-site': 'same-site' }, true],
    ['one that is named', 'POST', { origin: 'https://chat.example' }, false],
    ['one of this machine', 'POST', { origin: 'http://localhost:3000' }, false],
    ['its own page', 'POST', { origin: 'http://gw.example:80', host: 'GW.example:80' }, false],
    [
      'its own page behind a proxy of another name',
      'POST',
      { origin: 'https://gw.example', host: '10.0.0.1:8000', 'sec-fetch-site': 'same-origin' },
      false,
    ],
    ['another port of its name', 'POST', { origin: `${EVIL}:1`, host: 'evil.example:2' }, true],
  ])('%s', (_, method, headers, isRefused) => {
    expect(isDoneByForeignPage(method, headers, isAllowed)).toBe(isRefused)
  })
})

describe('namesThisMachine', () => {
  it.each([
    ['localhost:8000', true],
    ['a.localhost', true],
    ['127.0.0.1', true],
    ['[::1]:1', true],
    ['', true],
    ['evil.example', false],
    ['localhost.evil.example:8000', false],
    ['127.0.0.1.evil.example', false],
    ['localhost:8000.evil.example', false],
  ])('%s: %s', (host, isOwn) => {
    expect(namesThisMachine({ host })).toBe(isOwn)
  })
})
