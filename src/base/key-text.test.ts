import { describe, expect, it } from 'vitest'
import { holdsKey, withoutKeys } from './key-text.ts'

const KEY = `baton_0123abcd_${'aB-_9'.repeat(8)}xyz`

describe('key-text', () => {
  it.each([
    ['alone', KEY, 'baton_0123abcd_…'],
    ['within others, twice', `a ${KEY}/${KEY}?`, 'a baton_0123abcd_…/baton_0123abcd_…?'],
    ['one letter less', KEY.slice(0, -1), KEY.slice(0, -1)],
    ['names of metrics', 'baton_frontend_requests_total', 'baton_frontend_requests_total'],
    ['nothing', '', ''],
  ])('%s', (_, text, shown) => {
    expect([withoutKeys(text), holdsKey(text)]).toEqual([shown, shown !== text])
  })
})
