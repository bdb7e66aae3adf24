import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { brokenLockEntries } from '../scripts/lock-file.ts'
import { PACKAGE_VERSION } from '../src/llamacpp/native/library-files.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

interface Lock {
  readonly packages: Record<string, { integrity?: string; resolved?: string }>
}

it('the lock file - has a hash for every package and no address', () => {
  expect([...brokenLockEntries(read('package-lock.json'))]).toEqual([])
})

it('an entry without a hash, and one with an address - are reported', () => {
  const lock = JSON.parse(read('package-lock.json')) as Lock
  delete lock.packages['node_modules/@node-llama-cpp/win-x64']?.integrity
  Object.assign(lock.packages['node_modules/zod'] ?? {}, { resolved: 'http://registry.test/zod' })
  const rules = [...brokenLockEntries(JSON.stringify(lock))]
  expect(rules).toHaveLength(2)
  expect(rules[0]).toMatch(/^@node-llama-cpp\/win-x64@.* has no integrity/)
  expect(rules[1]).toMatch(/^zod@.* names its registry/)
})

it('the platform packages of llama.cpp - are all of the version that the engine accepts', () => {
  const { optionalDependencies } = JSON.parse(read('package.json')) as {
    optionalDependencies: Record<string, string>
  }
  const engines = Object.entries(optionalDependencies).filter(([name]) =>
    name.startsWith('@node-llama-cpp/'),
  )
  expect(engines.length).toBeGreaterThan(3)
  for (const [name, version] of engines) expect([name, version]).toEqual([name, PACKAGE_VERSION])
})
