import { describe, expect, it } from 'vitest'
import { readJsonObject } from './json-body.ts'

const read = (text: string) => readJsonObject(new TextEncoder().encode(text), undefined)
const ID = '18446744073709551615'

describe('worker ids in a body', () => {
  it('in nvext - keep every digit, wherever nvext is in the body', () => {
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

  it('the same names in user data - stay unchanged', () => {
    const data = `{"decode_worker_id":1234567890123456,"text":"\\"decode_worker_id\\":1234567890123456789,"}`
    expect(read(`{"tools":[${data}],"nvext":{"decode_worker_id":${ID}}}`)['tools']).toEqual([
      JSON.parse(data),
    ])
    expect(read(`{"schema":${data}}`)['schema']).toEqual(JSON.parse(data))
  })
})
