import { describe, expect, it } from 'vitest'
import { hostedOptions } from './hosted-options.ts'
import { resolveConfig } from '../options/resolve-config.ts'
import { serveConfig } from '../options/serve-config.ts'

const optionsOf = (flags: Readonly<Record<string, unknown>>) =>
  hostedOptions(serveConfig(resolveConfig({ flags, environment: {} })))

describe('hostedOptions', () => {
  it('taints and topology - stand on the card as the router reads them', () => {
    expect(optionsOf({ taints: 'gpu=h100,fast', topology: 'zone=eu-1,rack=7' })).toMatchObject({
      taints: ['gpu=h100', 'fast'],
      topology: { zone: 'eu-1', rack: '7' },
    })
  })

  it('neither given - neither is on the card', () => {
    expect(Object.keys(optionsOf({}))).not.toEqual(expect.arrayContaining(['taints']))
    expect(optionsOf({}).topology).toBeUndefined()
  })
})
