import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { BLOCKS, linesOf, PAGES, ROOT } from './docs-code.ts'
import { BatonsInTurn } from './in-turn.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

/**
 * Every block of the docs: a command of Baton has the options that it is shown with, a script of npm or a file that is run exists,
 * JSON and YAML parse. What needs a GPU, another machine or much time is marked `no-run`; docs-run.test.ts runs the others.
 */
const lines = BLOCKS.filter(({ language }) => language === 'sh').flatMap((block) =>
  linesOf(block)
    .flatMap((line) => line.split(/ && | \| /))
    .map((line) => ({ page: block.page, line: line.trim() })),
)

const BATON =
  /^(?:[A-Z_]+=\S+ )*(?:npx baton(?:-llm)?|npm run -s baton --|node \S*baton\.js|baton) (.*)$/
const commands = lines.flatMap(({ page, line }) => {
  const asked = BATON.exec(line)?.[1]
  return asked === undefined ? [] : [{ page, asked }]
})

const helps = new Map<string, Promise<string>>()
function helpOf(words: readonly string[]): Promise<string> {
  const key = words.join(' ')
  const known = helps.get(key) ?? batons.run([...words, '--help']).then(({ printed }) => printed)
  helps.set(key, known)
  return known
}

const GROUPS = new Set(['keys', 'boostr'])

const LANGUAGES = new Set(['sh', 'ts', 'js', 'json', 'yaml', 'diff', 'text'])

/** A manifest may be several documents. */
function readYaml(text: string): void {
  for (const { errors } of parseAllDocuments(text)) if (errors[0] !== undefined) throw errors[0]
}

describe('blocks of the docs', () => {
  it('each says what it is, and whether it is not run', () => {
    const unclear = BLOCKS.filter(
      ({ language, mark }) => !LANGUAGES.has(language) || !['', 'no-run'].includes(mark),
    )
    expect(unclear).toEqual([])
  })

  it('there are many', () => {
    expect([BLOCKS.length > 60, commands.length > 30]).toEqual([true, true])
  })

  it(
    'commands of baton - exist, with every option that they are shown with',
    { timeout: 120_000 },
    async () => {
      const wrong: string[] = []
      for (const { page, asked } of commands) {
        const [name = '', second = ''] = asked.split(/\s+/)
        if (name.startsWith('-')) continue
        const words = GROUPS.has(name) && !second.startsWith('-') ? [name, second] : [name]
        const help = await helpOf(words)
        const isKnown = new RegExp(`^Usage: baton ${words.join(' ')}\\b`).test(help)
        if (!isKnown) wrong.push(`${page}: baton ${asked}: no such command`)
        for (const [, flag] of asked.matchAll(/(?<![\w-])(--[a-z][a-z0-9-]*)/g)) {
          if (isKnown && !new RegExp(`${flag}(?![\\w-])`).test(help)) {
            wrong.push(`${page}: baton ${words.join(' ')} has no ${flag}`)
          }
        }
      }
      expect(wrong).toEqual([])
    },
  )

  it('commands of baton in a sentence - exist', { timeout: 120_000 }, async () => {
    const named = PAGES.flatMap((page) => {
      const text = readFileSync(join(ROOT, page), 'utf8')
      return [...text.matchAll(/`baton ([a-z]+)/g)].map(([, name = '']) => ({ page, name }))
    })
    const wrong: string[] = []
    for (const { page, name } of named) {
      const isKnown = (await helpOf([name])).includes(`Usage: baton ${name}`)
      if (!isKnown) wrong.push(`${page}: baton ${name}`)
    }
    expect([named.length > 50, wrong]).toEqual([true, []])
  })

  it('scripts of npm - are in package.json', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>
    }
    const asked = lines.flatMap(({ page, line }) => {
      const name = /^npm run (?:-s )?([a-z][\w:-]*)/.exec(line)?.[1]
      return name === undefined ? [] : [{ page, name }]
    })
    expect(asked.length).toBeGreaterThan(3)
    expect(asked.filter(({ name }) => !(name in scripts))).toEqual([])
  })

  it('programs of the repository - are there', () => {
    const run = lines.flatMap(({ page, line }) =>
      [...line.matchAll(/(?:tsx|node)(?: --\S+)* ((?:bench|scripts|examples)\/\S+)/g)].map(
        ([, path = '']) => ({ page, path }),
      ),
    )
    expect(run.length).toBeGreaterThan(5)
    for (const { page, path } of run) {
      expect([page, path, existsSync(join(ROOT, path))]).toEqual([page, path, true])
    }
  })

  it.each(BLOCKS.filter(({ language }) => language === 'json' || language === 'yaml'))(
    '$page: $language - parses',
    ({ language, text }) => {
      const read = (): void => void (language === 'json' ? JSON.parse(text) : readYaml(text))
      expect(read).not.toThrow()
    },
  )
})
