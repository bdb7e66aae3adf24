import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { mockEngineOptions } from '../../simengine/index.ts'
import { resolveConfig } from '../options/resolve-config.ts'
import { labFleet } from './lab-fleet.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-lab-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function fleetOf(flags: Record<string, unknown>, yaml?: string) {
  const file = join(folder, 'baton.yaml')
  if (yaml !== undefined) writeFileSync(file, yaml)
  const given = resolveConfig({ flags, environment: {}, ...(yaml === undefined ? {} : { file }) })
  return labFleet({ aggregated: '2' }, given)
}

function engineOf(flags: Record<string, unknown>, yaml?: string) {
  return fleetOf(flags, yaml).workers[0]?.engine
}

/** What differs from the defaults of an engine without any arguments. */
function changed(engine: unknown): Record<string, unknown> {
  const usual = Object.entries(mockEngineOptions({}))
  return Object.fromEntries(
    Object.entries(engine as object).filter(
      ([key, value]) => !usual.some(([known, same]) => known === key && same === value),
    ),
  )
}

describe('the engine of the laboratory', () => {
  it('an option of the simulated engine - changes nothing else', () => {
    expect(changed(engineOf({}))).toEqual({})
    expect(changed(engineOf({ simSeed: '1' }))).toEqual({})
    expect(changed(engineOf({ simSpeedup: '2' }))).toEqual({ speedupRatio: 2 })
    expect(changed(engineOf({ simBlocks: '500' }))).toEqual({ blockCount: 500 })
    expect(changed(engineOf({ simBlockSize: '16' }))).toEqual({ blockTokens: 16 })
    expect(changed(engineOf({ simArgs: '{"num_gpu_blocks": 500}' }))).toEqual({ blockCount: 500 })
  })

  it("with a configuration file - it has the server's defaults", () => {
    const engine = { blockTokens: 16, maxSequences: 8 }
    expect(engineOf({}, 'engine: sim\n')).toMatchObject(engine)
    expect(engineOf({ simBlocks: '500' }, 'engine: sim\n')).toMatchObject({
      ...engine,
      blockCount: 500,
    })
  })
})

describe('the router of the laboratory', () => {
  it('the memory of its index - does not depend on the machine', () => {
    const bytesOf = (...given: Parameters<typeof fleetOf>) => fleetOf(...given).router.indexBytes
    expect(bytesOf({})).toBe(512 * 1024 ** 2)
    expect(bytesOf({}, 'engine: sim\n')).toBe(512 * 1024 ** 2)
    expect(bytesOf({}, 'routerIndexBytes: 3MiB\n')).toBe(3 * 1024 ** 2)
    expect(bytesOf({ routerIndexBytes: '1MiB' })).toBe(1024 ** 2)
  })
})
