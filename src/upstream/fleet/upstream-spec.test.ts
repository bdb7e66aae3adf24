import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { parseUpstreams, upstreamsOf } from './upstream-spec.ts'

describe('parseUpstreams', () => {
  it.each([
    ['http://a:8000', [{ url: 'http://a:8000' }]],
    ['a:8000', [{ url: 'http://a:8000' }]],
    ['http://a:8000/v1/', [{ url: 'http://a:8000' }]],
    ['https://a/base/v1', [{ url: 'https://a/base' }]],
    ['http://[::1]:8000', [{ url: 'http://[::1]:8000' }]],
    ['http://a,http://b', [{ url: 'http://a' }, { url: 'http://b' }]],
    [
      'prefill=http://p:1, decode=http://d:1',
      [
        { url: 'http://p:1', mode: 'prefill' },
        { url: 'http://d:1', mode: 'decode' },
      ],
    ],
    ['vllm+http://a', [{ url: 'http://a', kind: 'vllm' }]],
    ['decode=sglang+http://a', [{ url: 'http://a', kind: 'sglang', mode: 'decode' }]],
    ['dns+http://pool:8000', [{ url: 'http://pool:8000', isDns: true }]],
    ['dns+vllm+http://pool:8000', [{ url: 'http://pool:8000', kind: 'vllm', isDns: true }]],
    ['http://user:pw@a:1', [{ url: 'http://user:pw@a:1' }]],
    ['', []],
  ])('%s', (text, list) => {
    expect(parseUpstreams(text)).toEqual(list)
  })

  it.each(['ftp://a', 'foo+http://a', 'both=http://a', 'http://', 'http://a?x=1'])(
    '%s - is refused with the expected form',
    (text) => {
      expect(() => parseUpstreams(text)).toThrow(/is invalid: .*expected for example http/)
    },
  )

  it('a refusal - does not repeat a password', () => {
    expect(() => parseUpstreams('foo+http://user:secret@a')).toThrow(BatonError)
    expect(() => parseUpstreams('foo+http://user:secret@a')).not.toThrow(/secret/)
  })
})

describe('upstreamsOf', () => {
  it('texts and objects, with or without a key', () => {
    const list = ['http://a', { url: 'http://b', mode: 'prefill', kind: 'vllm' }]
    const expected = [{ url: 'http://a' }, { url: 'http://b', mode: 'prefill', kind: 'vllm' }]
    expect(upstreamsOf(list)).toEqual(expected)
    expect(upstreamsOf({ upstreams: list })).toEqual(expected)
    expect(upstreamsOf(null)).toEqual([])
  })

  it.each([[[{ mode: 'prefill' }]], [[{ url: 'http://a', role: 'x' }]], [[1]], [{ a: 1 }]])(
    '%j - is refused',
    (value) => {
      expect(() => upstreamsOf(value)).toThrow(/is invalid/)
    },
  )
})
