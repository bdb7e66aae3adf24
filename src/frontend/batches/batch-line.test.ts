import { describe, expect, it } from 'vitest'
import { readBatchLine } from './batch-line.ts'

const ENDPOINT = '/v1/chat/completions'
const read = (json: string) => readBatchLine(new TextEncoder().encode(json), ENDPOINT)

describe('a line of a batch', () => {
  const withLists = (lists: number) =>
    `{"custom_id":"a","url":"${ENDPOINT}","body":{"model":"m","x":[${'[],'.repeat(lists)}[]]}}`

  it('a request - is read', () => {
    expect(read(withLists(2))).toMatchObject({ customId: 'a', model: 'm' })
  })

  it('with more values than a body may have - is a fault, found before it is parsed', () => {
    expect(read(withLists(256 * 1024))).toEqual({
      code: 'invalid_json_line',
      param: null,
      message: 'the line is not a JSON object: it holds more than 262144 values',
    })
  })
})
