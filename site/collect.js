/**
 * Collects the pages of the site in `.pages`: docs/ and the pages of the root folder unchanged, the API reference that TypeDoc
 * generates from the docstrings of the package's doors, and the OpenAPI document as a file and as a page.
 *
 * Links between pages stay as they are in the repository. Links to other files (a source, a folder) become links into the repository,
 * so that the build can refuse every other dead link.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Application } from 'typedoc'
import { openApiPage } from '../scripts/openapi-page.ts'
import { openApiDocument } from '../src/api/index.ts'

const SITE = fileURLToPath(new URL('.', import.meta.url))
const ROOT = join(SITE, '..')
const PAGES = join(SITE, '.pages')
const ROOT_PAGES = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
]
/** Address of the repository for links to sources; a fork can set its own. */
const REPOSITORY = process.env['BATON_REPOSITORY_URL'] ?? ''
const DOORS = {
  embedding: 'src/index.ts',
  engine: 'src/engine-door.ts',
  router: 'src/router/index.ts',
  wire: 'src/wire/index.ts',
  simulation: 'src/sim/index.ts',
  testing: 'src/testing/index.ts',
}

function pagesOf(folder) {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return pagesOf(path)
    return [path]
  })
}

const isFile = (path) => existsSync(path) && statSync(path).isFile()

function withoutForeignLinks(path, text) {
  const folder = dirname(path)
  return text.replace(
    /(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)/g,
    (whole, image, label, target, anchor = '') => {
      if (/^[a-z]+:/.test(target)) return whole
      const inRoot = normalize(join(folder, target))
      const isPage = inRoot.startsWith('docs/') || ROOT_PAGES.includes(inRoot)
      if (isPage && isFile(join(ROOT, inRoot))) {
        const there = relative(folder, inRoot).replace(/README\.md$/, 'index.md')
        return `${image}[${label}](${there.startsWith('.') ? there : `./${there}`}${anchor})`
      }
      return REPOSITORY === ''
        ? `\`${label.replaceAll('`', '')}\``
        : `[${label}](${REPOSITORY}/${inRoot}${anchor})`
    },
  )
}

/** Words in angle brackets are placeholders, not elements; code is left as it is. */
function withoutElements(text) {
  return text
    .split(/(```[\s\S]*?```|`[^`\n]*`)/)
    .map((part, i) =>
      i % 2 === 1
        ? part
        : part.replace(/<(?!br>|kbd>|\/)/g, '&lt;').replaceAll('{{', '&#123;&#123;'),
    )
    .join('')
}

function copyPages() {
  rmSync(PAGES, { recursive: true, force: true })
  for (const path of [...ROOT_PAGES, ...pagesOf('docs')]) {
    const target = join(PAGES, path === 'README.md' ? 'index.md' : path)
    mkdirSync(dirname(target), { recursive: true })
    if (!path.endsWith('.md')) cpSync(join(ROOT, path), target)
    else
      writeFileSync(
        target,
        withoutElements(withoutForeignLinks(path, readFileSync(join(ROOT, path), 'utf8'))),
      )
  }
}

async function writeApi() {
  const app = await Application.bootstrapWithPlugins({
    entryPoints: Object.values(DOORS).map((path) => join(ROOT, path)),
    tsconfig: join(SITE, 'tsconfig.json'),
    plugin: ['typedoc-plugin-markdown'],
    out: join(PAGES, 'api'),
    entryFileName: 'index',
    readme: 'none',
    name: 'API reference',
    disableSources: true,
    excludePrivate: true,
    excludeInternal: true,
    hideBreadcrumbs: true,
    skipErrorChecking: true,
    logLevel: 'Error',
  })
  const project = await app.convert()
  if (project === undefined) throw new Error('the API reference could not be generated')
  await app.generateOutputs(project)
}

/** Without a frontend: what one of this version would serve. */
function writeOpenApi() {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const document = openApiDocument(version)
  mkdirSync(join(PAGES, 'public'), { recursive: true })
  writeFileSync(join(PAGES, 'public/openapi.json'), JSON.stringify(document, null, 2))
  writeFileSync(join(PAGES, 'openapi.md'), openApiPage(document))
}

copyPages()
writeOpenApi()
await writeApi()
