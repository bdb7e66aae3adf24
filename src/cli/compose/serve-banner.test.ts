import { describe, expect, it } from 'vitest'
import type { ServeConfig } from '../options/serve-config.ts'
import { accessLine } from './serve-banner.ts'

const lineOf = (config: Partial<ServeConfig>): string =>
  accessLine({ keys: null, host: '127.0.0.1', insecureOpen: false, ...config } as ServeConfig)

describe('accessLine - who may call, as the banner shows it', () => {
  it.each<[string, Partial<ServeConfig>, RegExp]>([
    ['this machine', {}, /^this machine only, without a key$/],
    ['keys', { keys: 'keys.json', host: '0.0.0.0' }, /^with a key/],
    ['keys and --insecure-open', { keys: 'keys.json', insecureOpen: true }, /^with a key/],
    ['--insecure-open', { host: '0.0.0.0', insecureOpen: true }, /^OPEN: everybody who reaches/],
    ['--insecure-open here', { insecureOpen: true }, /^OPEN: every process that forwards/],
  ])('%s', (_, config, line) => {
    expect(lineOf(config)).toMatch(line)
  })

  it('a password in the address of the keys - is not shown', () => {
    expect(lineOf({ keys: 'nats://u:secret@hub:4222' })).not.toContain('secret')
  })
})
