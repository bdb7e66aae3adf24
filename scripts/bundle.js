/**
 * Bundles what is run: `dist/bin/baton.js` and the threads that it starts (`*-thread-main.ts`), and the library: a file per door
 * of package.json in `dist/lib`.
 *
 * The console becomes one HTML file, `dist/bin/console.html`, with its script and style inside.
 *
 * A command that loads 800 modules one by one takes most of a second to say `--help`; in the bundle a command is a few files. What the
 * compiler writes under `dist/` gives the types. Optional packages stay outside: they are native, or used by few; and of the library
 * those that its types name. All others are inside, so that who installs Baton does not install them.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { thirdPartyNotices } from './third-party-notices.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const ENTRY = join(ROOT, 'dist/bin/baton.js')
/** Written last. */
const NOTICES = join(ROOT, 'dist/THIRD-PARTY-NOTICES.txt')
const CONSOLE = join(ROOT, 'src/console')
const CONSOLE_BYTES_MAX = 150_000

function sources(folder = join(ROOT, 'src')) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return sources(path)
    return entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts') ? [path] : []
  })
}

/** True when a source, a build setting or the list of packages is newer than the program. */
export function isProgramStale() {
  return isOlderThanSources(ENTRY)
}

/** The same for program and library. */
export function isBundleStale() {
  return isProgramStale() || isOlderThanSources(NOTICES)
}

function isOlderThanSources(written) {
  if (!existsSync(written)) return true
  const builtMs = statSync(written).mtimeMs
  const inputs = [
    ...sources(),
    join(CONSOLE, 'page.html'),
    join(CONSOLE, 'style.css'),
    join(ROOT, 'package.json'),
    fileURLToPath(import.meta.url),
  ]
  return inputs.some((path) => statSync(path).mtimeMs > builtMs)
}

/**
 * `prom-client` loads the OpenTelemetry API in every process: 40 files that take an eighth of the CPU time of a
 * start, and nothing when they are in the bundle. Only where exporters are opened the external copy is used, whose
 * logger is set.
 */
function isExternal(packages, id, importer = '') {
  if (id === '@opentelemetry/api' && !importer.endsWith('/otlp-provider.ts')) return false
  return packages.some((name) => id === name || id.startsWith(`${name}/`))
}

/** Program and library. */
export async function bundle() {
  const { exports, dependencies, optionalDependencies, peerDependencies } = manifest()
  const doors = Object.entries(exports).flatMap(([door, { types }]) =>
    types === undefined ? [] : [[door, types]],
  )
  const input = Object.fromEntries(
    doors.map(([door, types]) => [
      door === '.' ? 'index' : door.slice(2).replaceAll('/', '-'),
      types.replace('./dist', 'src').replace('.d.ts', '.ts'),
    ]),
  )
  const external = { ...dependencies, ...optionalDependencies, ...peerDependencies }
  const options = { input: { ...input, ...threads() }, outside: Object.keys(external) }
  const inLibrary = await write('dist/lib', { ...options, preserveEntrySignatures: 'strict' })
  const inProgram = await bundleProgram()
  writeFileSync(NOTICES, thirdPartyNotices([...inLibrary, ...inProgram]))
}

/** Resolves with the bundled files. */
export async function bundleProgram() {
  const { optionalDependencies, peerDependencies } = manifest()
  const files = await write('dist/bin', {
    input: { baton: 'src/cli/main.ts', ...threads() },
    outside: Object.keys({ ...optionalDependencies, ...peerDependencies }),
    preserveEntrySignatures: false,
  })
  await bundleConsole()
  return files
}

/**
 * Escapes what is not ASCII, because a single other character may double the memory of a file's text. Without comments
 * it occurs only in strings, templates and regular expressions, where an escape is the same character. Lines stay the
 * same for the source map.
 */
function ascii(code) {
  // Half of a surrogate pair is escaped by itself, also in regular expressions with the flag `u`.
  return code.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

function manifest() {
  return JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
}

function threads() {
  const paths = sources().filter((path) => path.endsWith('-thread-main.ts'))
  return Object.fromEntries(paths.map((path) => [basename(path, '.ts'), path]))
}

async function write(folder, { outside, ...options }) {
  const build = await rolldown({
    ...options,
    external: (id, importer) => isExternal(outside, id, importer),
    cwd: ROOT,
    platform: 'node',
    treeshake: { moduleSideEffects: false },
  })
  // One flat folder, so that a worker thread's file is next to every file that starts it.
  const { output } = await build.write({
    dir: join(ROOT, folder),
    format: 'esm',
    sourcemap: true,
    // The sources are in the repository; a map without them still gives readable stacks.
    sourcemapExcludeSources: true,
    cleanDir: true,
    chunkFileNames: '[name]-[hash].js',
    // V8 keeps the text of each loaded file in memory.
    comments: { legal: false, annotation: true, jsdoc: false },
  })
  await build.close()
  const chunks = output.filter(({ type }) => type === 'chunk')
  for (const { fileName, code } of chunks) writeFileSync(join(ROOT, folder, fileName), ascii(code))
  return chunks.flatMap(({ moduleIds }) => moduleIds)
}

/**
 * The page may run only its own script and style and connect only to its own server; a content security policy with
 * their hashes enforces it.
 */
async function bundleConsole() {
  const build = await rolldown({ cwd: ROOT, input: 'src/console/main.ts', platform: 'browser' })
  const { output } = await build.generate({ format: 'iife', minify: true })
  await build.close()
  const script = output[0].code.trim().replaceAll('</script', '<\\/script')
  const style = readFileSync(join(CONSOLE, 'style.css'), 'utf8').trim()
  const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  // Styles in attributes: the dots of the picture.
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src-elem ${hash(style)}`,
    "style-src-attr 'unsafe-inline'",
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'self'",
  ].join('; ')
  const page = readFileSync(join(CONSOLE, 'page.html'), 'utf8')
    .replace(
      '<!-- policy -->',
      () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    )
    .replace('<!-- style -->', () => `<style>${style}</style>`)
    .replace('<!-- script -->', () => `<script>${script}</script>`)
  if (page.length > CONSOLE_BYTES_MAX) {
    throw new Error(`the console has ${page.length} bytes, more than ${CONSOLE_BYTES_MAX}`)
  }
  writeFileSync(join(ROOT, 'dist/bin/console.html'), page)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle()
