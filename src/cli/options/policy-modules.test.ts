import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadPolicyModules } from './policy-modules.ts'
import { resolveConfig } from './resolve-config.ts'

function moduleWith(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-policy-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'mine.mjs')
  writeFileSync(path, content)
  return path
}

const load = (flags: Readonly<Record<string, unknown>>) =>
  loadPolicyModules(resolveConfig({ flags, environment: {} }))

const scorerNamed = (name: string): string =>
  `export default { name: '${name}', of: ({ card }) => (card.workerId === '1' ? 50 : 0) }`

describe('loadPolicyModules', () => {
  it('nothing given - no policy is set', async () => {
    expect(await load({})).toEqual({})
  })

  it('scorers, filter, picker - each is loaded from its file, also from a list', async () => {
    const list = moduleWith(
      "export default [{ name: 'b', of: () => 1 }, { name: 'c', role: 'factor', of: () => 2 }]",
    )
    const policy = await load({
      scorer: `${moduleWith(scorerNamed('a'))},${list}`,
      filter: moduleWith("export default ({ card }) => (card.workerId === '9' ? 'nine' : null)"),
      picker: moduleWith('export default (costs, count) => count - 1'),
    })
    expect(policy.scorers?.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
    expect(policy.filters).toHaveLength(1)
    expect(policy.picker).toBeTypeOf('function')
  })

  it.each([
    ['no default export', 'export const scorer = 1', 'has no default export'],
    ['no module', 'export default {', 'cannot be loaded: '],
    ['no object', 'export default 7', 'name: expected a name of letters'],
    ['no name', 'export default { of: () => 1 }', 'name: expected a name of letters'],
    ['a built-in name', scorerNamed('prefill'), "scorer 'prefill' is invalid: name: expected a"],
    ['no function', "export default { name: 'x' }", "'x' is invalid: of: expected a function"],
    ['a role', "export default { name: 'x', role: 'sum', of: () => 1 }", 'role: expected add'],
    ['a weight', "export default { name: 'x', weight: NaN, of: () => 1 }", 'weight: expected a'],
    ['a throw', "export default { name: 'x', of: (c) => c.card.no.such }", "scorer 'x' threw"],
    ['a promise', "export default { name: 'x', of: async () => 1 }", 'returned a promise'],
    ['an empty list', 'export default []', 'the exported list is empty'],
  ])('%s - is refused in one line with option, file and reason', async (_, content, message) => {
    const file = moduleWith(content)
    await expect(load({ scorer: file })).rejects.toThrow(message)
    await expect(load({ scorer: file })).rejects.toThrow(`--scorer ${file}: `)
    await expect(load({ scorer: file })).rejects.toMatchObject({ code: 'config.invalid' })
  })

  it('a missing file, two scorers of one name, two pickers, a filter or picker that throws - are refused', async () => {
    await expect(load({ scorer: '/nowhere/x.js' })).rejects.toThrow('the file does not exist')
    const one = moduleWith(scorerNamed('a'))
    await expect(load({ scorer: `${one},${moduleWith(scorerNamed('a'))}` })).rejects.toThrow(
      'a name that no other term of the cost has',
    )
    const filter = moduleWith('export default async () => null')
    await expect(load({ filter })).rejects.toThrow('the filter returned a promise')
    const picker = moduleWith('export default (costs, count) => count')
    await expect(load({ picker })).rejects.toThrow('the picker returned 2, expected a whole number')
    await expect(load({ picker: `${picker},${picker}` })).rejects.toThrow('only one picker')
  })
})
