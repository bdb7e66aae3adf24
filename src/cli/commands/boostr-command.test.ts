import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runBoostr } from './boostr-command.ts'
import type { BoostrRole } from './boostr-flags.ts'
import { TOY_MODEL, loadBoostrModel } from './boostr-model.ts'
import { resolveConfig } from '../options/resolve-config.ts'
import { openWireWarning } from '../guard/wire-security.ts'

const OPTIONS = resolveConfig({ flags: {}, environment: {}, file: undefined })
const COMMON = { rank: '1', peers: 'baton', maxKvTransferBytes: '100' }
const WORKER = { ...COMMON, accept: ['0'] }

describe('baton boostr', () => {
  it.each<[string, BoostrRole, object, RegExp]>([
    [
      'a rank that is no number',
      'decode',
      { ...WORKER, rank: 'x' },
      /--rank: x is invalid: expected a number/,
    ],
    ['other peers', 'decode', { ...WORKER, peers: 'x' }, /--peers: expected baton or boostr/],
    [
      'no port',
      'decode',
      { ...WORKER, listen: 'here' },
      /--listen: here is invalid: expected host:port/,
    ],
    ['a port too high', 'decode', { ...WORKER, listen: 'a:65536' }, /--listen: a:65536/],
    [
      'no rank before an address',
      'prefill',
      { ...WORKER, decodeWorkers: ['a:1'] },
      /--decode-workers: a:1 is invalid: expected/,
    ],
    [
      'two roles of one rank',
      'router',
      { ...COMMON, prefillWorkers: ['1=a:1'], decodeWorkers: ['1=a:1'] },
      /rank 1 has more than one role/,
    ],
    [
      'a module that is not there',
      'decode',
      { ...WORKER, module: 'no.mjs' },
      /--module no.mjs: the file does not exist/,
    ],
    [
      'no request at a time',
      'router',
      { ...COMMON, maxInFlight: '0' },
      /--max-in-flight: 0 is invalid: expected a positive number/,
    ],
    [
      'no token for any request',
      'router',
      { ...COMMON, maxTokens: '0' },
      /--max-tokens: 0 is invalid: expected a positive number/,
    ],
    [
      'more tokens than a message can name',
      'router',
      { ...COMMON, maxTokens: '4294967296' },
      /--max-tokens: 4294967296 is invalid: expected at most 4294967295/,
    ],
    [
      'a rank that no message can name',
      'decode',
      { ...WORKER, rank: '4294967296' },
      /--rank: 4294967296 is invalid: expected at most 4294967295/,
    ],
    [
      'such a rank of another process',
      'decode',
      { ...WORKER, accept: ['99999999999'] },
      /--accept: 99999999999 is invalid: expected at most 4294967295/,
    ],
    [
      'such a rank before an address',
      'prefill',
      { ...WORKER, decodeWorkers: ['99999999999=a:1'] },
      /--decode-workers: 99999999999 is invalid: expected at most 4294967295/,
    ],
    [
      'its own rank as one that may connect',
      'decode',
      { ...WORKER, accept: ['0', '1'] },
      /--accept: 1 is the rank of this process/,
    ],
    [
      'its own rank as a decode worker',
      'prefill',
      { ...WORKER, decodeWorkers: ['1=a:1'] },
      /--decode-workers: 1 is the rank of this process/,
    ],
    [
      'more KV than a frame has room for',
      'router',
      { ...COMMON, maxKvTransferBytes: '2147483649' },
      /--max-kv-transfer-bytes: 2147483649 is invalid: expected at most 2147483648/,
    ],
  ])('%s - is refused by name', async (_name, role, flags, message) => {
    await expect(runBoostr(role, { ...flags }, OPTIONS)).rejects.toMatchObject({
      code: 'config.invalid',
      message: expect.stringMatching(message),
    })
  })

  it('a module of the user - replaces the toy model', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'boostr-module-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const path = join(folder, 'model.mjs')
    writeFileSync(path, 'export const prefill = (ids, done) => done(new Uint8Array(ids.length))')
    const prefill = await loadBoostrModel(path, 'prefill')
    prefill(BigInt64Array.of(1n, 2n), (kv) => expect(kv).toEqual(new Uint8Array(2)))
    await expect(loadBoostrModel(path, 'decodeStep')).rejects.toThrow(/no function decodeStep/)
    expect(await loadBoostrModel(null, 'prefill')).toBe(TOY_MODEL.prefill)
  })
})

describe('openWireWarning', () => {
  it.each(['127.0.0.1', '127.9.9.9', '::1', 'localhost'])('%s - no warning', (address) => {
    expect(openWireWarning(address, {})).toBeNull()
  })

  it.each(['0.0.0.0', '::', '10.0.0.1', 'node-7'])(
    '%s - without wire security the warning names what to set',
    (at) => {
      expect(openWireWarning(at, {})).toMatch(/BATON_WIRE_SECRET, or --tls-cert/)
      expect(openWireWarning(at, { secret: 's' })).toBeNull()
      expect(openWireWarning(at, { tls: { cert: '', key: '', ca: '' } })).toBeNull()
    },
  )
})
