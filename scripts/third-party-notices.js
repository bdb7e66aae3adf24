/**
 * Collects the licences of the packages whose code is included in the build: they require to be distributed with
 * every copy, and users of Baton do not install these packages.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const LICENCE_FILE = /^(licen[cs]e|notice|copying)(\.|-|$)/i

/** Of the packages that these files belong to, ordered by name. */
export function thirdPartyNotices(files) {
  const folders = new Map()
  for (const file of files) {
    const found = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(file.split('\\').join('/'))
    if (found !== null) folders.set(found[1], found[2])
  }
  const parts = [...folders].map(([folder, name]) => {
    const { version, license = 'see its repository' } = JSON.parse(
      readFileSync(join(folder, 'package.json'), 'utf8'),
    )
    const texts = readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() && LICENCE_FILE.test(entry.name))
      .map((entry) => readFileSync(join(folder, entry.name), 'utf8').trim())
    return [`${name} ${version} (${license})`, ...texts].join('\n\n')
  })
  const head = 'Code of these packages is part of dist/bin and dist/lib.'
  const rule = `\n\n${'-'.repeat(80)}\n\n`
  return `${[head, ...parts.toSorted()].join(rule)}\n`
}
