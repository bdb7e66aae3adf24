import { describe, expect, it } from 'vitest'
import { readJsonObject } from './json-body.ts'

const read = (text: string) => readJsonObject(new TextEncoder().encode(text), undefined)
const ID = '18446744073709551615'

describe('worker ids in a body', () => {
  it('of nvext - keep every digit, wherever nvext stands', () => {
    expect(
      read(`{"a":[{"nvext":1},"nvext"],"nvext": {"decode_worker_id":${ID} ,"x":"}"},"b":1}`),
    ).toEqual({
      a: [{ nvext: 1 }, 'nvext'],
      nvext: { decode_worker_id: ID, x: '}' },
      b: 1,
    })
    expect(read(`{"nvext":{"dp_rank":1},"nvext":{"prefill_worker_id":${ID}}}`)).toEqual({
      nvext: { prefill_worker_id: ID },
    })
  })

  it("the same names in a user's data - stay what they are", () => {
    const data = `{"decode_worker_id":1234567890123456,"text":"\\"decode_worker_id\\":1234567890123456789,"}`
    expect(read(`{"tools":[${data}],"nvext":{"decode_worker_id":${ID}}}`)['tools']).toEqual([
      JSON.parse(data),
    ])
    expect(read(`{"schema":${data}}`)['schema']).toEqual(JSON.parse(data))
  })
})
