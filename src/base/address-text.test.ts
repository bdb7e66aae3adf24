import { expect, it } from 'vitest'
import { addressText } from './address-text.ts'

it.each([
  ['10.0.0.1', '10.0.0.1:7000'],
  ['worker.fleet', 'worker.fleet:7000'],
  ['::1', '[::1]:7000'],
  ['fe80::1%eth0', '[fe80::1%eth0]:7000'],
])('%s - is written as %s', (host, text) => expect(addressText(host, 7000)).toBe(text))
