import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { hubNameOf, localModelPath } from './hub-cache.ts'

function hubOf(model: string, revisions: readonly string[], main?: string): string {
  const hub = mkdtempSync(path.join(tmpdir(), 'baton-hub-'))
  onTestFinished(() => rmSync(hub, { recursive: true, force: true }))
  const folder = path.join(hub, model)
  for (const revision of revisions) {
    mkdirSync(path.join(folder, 'snapshots', revision), { recursive: true })
  }
  mkdirSync(path.join(folder, 'refs'), { recursive: true })
  if (main !== undefined) writeFileSync(path.join(folder, 'refs', 'main'), main)
  return hub
}

describe('localModelPath', () => {
  it('a name on the hub - the snapshot of revision main, or the only one', () => {
    const named = hubOf('models--org--A-1.5b', ['abc', 'def'], 'def\n')
    expect(localModelPath('org/A-1.5b', { HF_HUB_CACHE: named })).toBe(
      path.join(named, 'models--org--A-1.5b/snapshots/def'),
    )
    const only = hubOf('models--gpt2', ['abc'])
    expect(localModelPath('gpt2', { HF_HUB_CACHE: only })).toBe(
      path.join(only, 'models--gpt2/snapshots/abc'),
    )
  })

  it('the variables of huggingface_hub - say where the cache is', () => {
    const hub = hubOf('models--org--a', ['abc'])
    const home = path.dirname(hub)
    const moved = { HF_HOME: path.join(home, 'x') }
    expect(localModelPath('org/a', { HUGGINGFACE_HUB_CACHE: hub })).not.toBe('org/a')
    expect(localModelPath('org/a', { HF_HUB_CACHE: hub, ...moved })).not.toBe('org/a')
    expect(localModelPath('org/a', moved)).toBe('org/a')
  })

  it.each([
    ['a path that exists', 'src/host'],
    ['an absolute path', '/models/org/a'],
    ['a path upwards', '../a'],
    ['a name that leaves the cache', 'org/..'],
    ['another model', 'org/b'],
    ['several revisions and no main', 'org/two'],
    ['a main that leaves the folder', 'org/up'],
  ])('%s - is not changed', (_, model) => {
    const hub = hubOf('models--org--two', ['abc', 'def'])
    mkdirSync(path.join(hub, 'models--org--up/snapshots'), { recursive: true })
    mkdirSync(path.join(hub, 'models--org--up/refs'))
    writeFileSync(path.join(hub, 'models--org--up/refs/main'), '../../models--org--two')
    expect(localModelPath(model, { HF_HUB_CACHE: hub })).toBe(model)
  })
})

describe('hubNameOf', () => {
  it('a snapshot - is called as on the hub; other folders are not', () => {
    expect(hubNameOf('/c/hub/models--org--A--b/snapshots/0f3a')).toBe('org/A--b')
    expect(hubNameOf('/c/hub/models--gpt2/snapshots/0f3a/')).toBe('gpt2')
    expect(hubNameOf('/models/storyteller')).toBeNull()
  })
})
