import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { MockEngineOptions } from '../../simengine/index.ts'
import { resolveConfig } from './resolve-config.ts'
import { serveConfig } from './serve-config.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-sim-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function fileWith(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

function simOf(flags: Record<string, unknown>, yaml = ''): MockEngineOptions | null {
  const file = fileWith('baton.yaml', yaml)
  return serveConfig(resolveConfig({ flags: { engine: 'sim', ...flags }, environment: {}, file }))
    .sim
}

describe('simSettings - effective settings', () => {
  it('no options - the defaults of the command line', () => {
    expect(simOf({})).toMatchObject({
      engineType: 'vllm',
      blockTokens: 16,
      maxSequences: 8,
      speedupRatio: 1,
      seed: 1,
    })
    expect(simOf({})).not.toHaveProperty('blockCount')
  })

  it("the engine's own flags - are used; speed 0 takes no time at all", () => {
    const flags = { simBlockSize: '32', simBlocks: '100', simBatchedTokens: '64', simSeed: '7' }
    expect(simOf({ ...flags, simSpeedup: '0', sequences: '3' })).toMatchObject({
      blockTokens: 32,
      blockCount: 100,
      tokenBudget: 64,
      maxSequences: 3,
      seed: 7,
      speedupRatio: 'instantaneous',
    })
  })

  it('--sim-args - replaces the defaults of the command line, and flags take precedence over it', () => {
    const simArgs = '{"max_num_seqs":5,"speedup_ratio":3,"block_size":8,"max_model_len":1000}'
    expect(simOf({ simArgs })).toMatchObject({
      maxSequences: 5,
      speedupRatio: 3,
      blockTokens: 8,
      maxModelLength: 1000,
    })
    expect(simOf({ simArgs, sequences: '6', simSpeedup: '0' })).toMatchObject({
      maxSequences: 6,
      speedupRatio: 'instantaneous',
    })
    expect(simOf({ simArgs: '{}' })).not.toHaveProperty('blockTokens')
  })

  it('a file, or an object in baton.yaml - works like inline JSON', () => {
    const path = fileWith('args.yaml', 'engine_type: sglang\nsglang:\n  page_size: 4\n')
    const inline = simOf({ simArgs: '{"engine_type":"sglang","sglang":{"page_size":4}}' })
    expect(simOf({ simArgs: path })).toEqual(inline)
    const yaml = 'simArgs:\n  engine_type: sglang\n  sglang: { page_size: 4 }\n'
    expect(simOf({}, yaml)).toEqual(inline)
  })

  it('another engine - has no simulation settings', () => {
    expect(serveConfig(resolveConfig({ flags: {}, environment: {} })).sim).toBeNull()
  })
})

describe('simSettings - refused in one line with the name of the argument', () => {
  it.each([
    [{ simArgs: '{"num_gpu_blocks":' }, '--sim-args: '],
    [{ simArgs: '{"watermark":1}' }, '--sim-args: watermark must be left out'],
    [{ simArgs: 'nowhere.json' }, '--sim-args nowhere.json: '],
    [{ simArgs: '' }, '--sim-args: "" is invalid: expected'],
    [{ simBlocks: '0' }, '--sim-blocks'],
    [
      { simBlocks: '5', simArgs: '{"gpu_memory_utilization":0.9}' },
      '--sim-args: gpu_memory_utilization must be left out, or num_gpu_blocks',
    ],
    [{ engine: 'llamacpp', simArgs: '{}' }, '--sim-args has no effect with --engine llamacpp'],
  ])('%j', (flags, line) => {
    expect(() => simOf(flags)).toThrow(line)
    expect(() => simOf(flags)).toThrow(/^[^\n]+$/)
    // The place is named once.
    expect(() => simOf(flags)).not.toThrow(/--sim-args.*--sim-args/)
  })

  it.each(['[1]', '- 1\n', 'just text'])('a file that contains %j', (content) => {
    const path = fileWith('odd.yaml', content)
    expect(() => simOf({ simArgs: path })).toThrow('odd.yaml: expected an object')
  })
})
