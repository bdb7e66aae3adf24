import { describe, expect, it } from 'vitest'
import { describeDiscovery, parseDiscovery } from './discovery-kinds.ts'

const NATS = { kind: 'nats', servers: ['h:4222'], prefix: 'baton' }

describe('--discovery', () => {
  it.each([
    ['memory', { kind: 'memory' }],
    ['file:/srv/fleet', { kind: 'file', folder: '/srv/fleet' }],
    ['file:///srv/fleet', { kind: 'file', folder: '/srv/fleet' }],
    [' file:fleet ', { kind: 'file', folder: 'fleet' }],
    ['file:C:x', { kind: 'file', folder: 'C:x' }],
    [
      'static:a:1,[::1]:65535',
      {
        kind: 'static',
        addresses: [
          { host: 'a', port: 1 },
          { host: '::1', port: 65_535 },
        ],
      },
    ],
    ['nats://h', NATS],
    ['nats://h:4222/', NATS],
    ['nats://a,b:5,[::1]:6', { ...NATS, servers: ['a:4222', 'b:5', '[::1]:6'] }],
    ['nats://u:p%40%2F@h', { ...NATS, user: 'u', password: 'p@/' }],
    ['nats://h?prefix=x_1-y&token=t', { ...NATS, prefix: 'x_1-y', token: 't' }],
    ['nats://h?creds=/c', { ...NATS, credentials: '/c' }],
    ['tls://h', { ...NATS, tls: {} }],
    [
      'nats://h?tls_ca=/a&tls_cert=/b&tls_key=/c',
      { ...NATS, tls: { ca: '/a', cert: '/b', key: '/c' } },
    ],
    ['kubernetes', { kind: 'kubernetes' }],
    ['kubernetes:ns', { kind: 'kubernetes', namespace: 'ns' }],
    [
      'kubernetes:ns/app=baton,x in (a)',
      { kind: 'kubernetes', namespace: 'ns', selector: 'app=baton,x in (a)' },
    ],
  ])('%s', (text, address) => {
    expect(parseDiscovery(text)).toEqual(address)
  })

  it.each([
    ['', /expected memory/],
    ['/srv/fleet', /expected memory/],
    ['zookeeper://h', /expected memory/],
    ['file:', /folder after file: is missing/],
    ['static:', /addresses after static: are missing/],
    ['static:a', /expected <host>:<port>, got 'a'/],
    ['static:a:0', /got 'a:0'/],
    ['static:a:65536', /got 'a:65536'/],
    ['static:a:1,a:1', /twice/],
    ['nats://', /got ''/],
    ['nats:h', /expected nats:\/\//],
    ['nats://h?prefx=a', /unknown parameter 'prefx'/],
    ['nats://h?prefix=a.b', /prefix must have at most/],
    [`nats://h?prefix=${'a'.repeat(65)}`, /prefix must have at most/],
  ])('%s - is invalid, with what was expected', (text, why) => {
    expect(() => parseDiscovery(text)).toThrow(why)
  })

  it('passwords and tokens - appear in no message and no description', () => {
    expect(() => parseDiscovery('nats://u:hush@h?nope=1&token=hush')).toThrow(/^(?!.*hush)/)
    expect(describeDiscovery(parseDiscovery('nats://u:hush@h?token=hush'))).toBe(
      'nats://h:4222 (baton)',
    )
  })
})
