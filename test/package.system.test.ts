import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { withoutTestVariables } from './running-server.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  exports: Record<string, unknown>
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}

function run(
  folder: string,
  args: readonly string[],
  untilText?: string,
): Promise<{ code: number | null; printed: string }> {
  const child = spawn(process.execPath, args, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: withoutTestVariables(process.env),
  })
  let printed = ''
  const take = (bytes: Buffer): void => {
    printed += bytes.toString()
    if (untilText === undefined || child.killed || !printed.includes(untilText)) return
    child.kill('SIGTERM')
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, printed }))
  })
}

/** The package, installed in a folder in which packages with `missing` in their name are not installed. */
function withoutPackages(missing: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-package-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const name of ['dist', 'models', 'package.json'])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  const modules = join(folder, 'node_modules')
  mkdirSync(modules)
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (name.includes(missing)) continue
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  return folder
}

/** Packages that npm installs with Baton if no optional dependency is wanted. */
function installedNames(): readonly string[] {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; optional?: boolean; devOptional?: boolean }>
  }
  return Object.entries(lock.packages).flatMap(([path, entry]) => {
    const isNested = path.lastIndexOf('node_modules/') > 0
    const isLeftOut = entry.dev === true || entry.optional === true || isNested || path === ''
    return isLeftOut ? [] : [path.replace('node_modules/', '')]
  })
}

function linkModule(name: string, modules: string): void {
  const from = join(ROOT, 'node_modules', name)
  if (!existsSync(from)) return
  mkdirSync(dirname(join(modules, name)), { recursive: true })
  symlinkSync(from, join(modules, name))
}

/**
 * Modules that the types of the entry points refer to, directly or indirectly, and that are neither in the package
 * nor installed with it.
 */
function missingTypes(installed: string): readonly string[] {
  const missing = new Set<string>()
  const seen = new Set<string>()
  const look = (path: string): void => {
    if (seen.has(path)) return
    seen.add(path)
    if (!existsSync(path)) return void missing.add(path)
    for (const [, name = ''] of readFileSync(path, 'utf8').matchAll(
      /(?:from|import\() ?'([^']+)'/g,
    )) {
      if (name.startsWith('.')) look(join(path, '..', name.replace(/\.(ts|js)$/, '.d.ts')))
      else if (!name.startsWith('node:') && !(name in manifest.dependencies)) missing.add(name)
    }
  }
  for (const door of Object.values(manifest.exports))
    if (typeof door === 'object') look(join(installed, (door as { types: string }).types))
  return [...missing]
}

describe('npm package', () => {
  it('manifest - names its repository, pages and keywords, and is published with provenance', () => {
    expect(manifest).toMatchObject({
      repository: { type: 'git', url: 'git+https://github.com/baton-llm/baton.git' },
      homepage: 'https://github.com/baton-llm/baton#readme',
      bugs: { url: 'https://github.com/baton-llm/baton/issues' },
      keywords: expect.arrayContaining(['llm', 'disaggregated', 'kv-cache', 'router', 'vllm']),
      publishConfig: { access: 'public', provenance: true },
    })
  })

  it.each(Object.keys(manifest.exports).filter((door) => !door.endsWith('.json')))(
    'entry point %s - can be imported by its name and has types',
    async (door) => {
      const name = `baton-llm${door.slice(1)}`
      const script = `const m = await import(${JSON.stringify(name)}); console.log(Object.keys(m).length)`
      const { code, printed } = await run(ROOT, ['--input-type=module', '-e', script])
      expect(printed).toMatch(/^[1-9]\d*\n$/)
      expect(code).toBe(0)
      const { types } = manifest.exports[door] as { types: string }
      expect(readFileSync(join(ROOT, types), 'utf8')).toContain('export')
    },
  )

  it('published files - are the built code, the model and the pages only; the examples run', async () => {
    // A separate cache, because npm's default cache may not be writable.
    const folder = mkdtempSync(join(tmpdir(), 'baton-npm-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const args = ['pack', '--json', '--ignore-scripts', '--cache', join(folder, 'cache')]
    const packed = spawnSync('npm', [...args, '--pack-destination', folder], {
      cwd: ROOT,
      encoding: 'utf8',
    })
    const list = JSON.parse(packed.stdout) as readonly {
      filename: string
      unpackedSize: number
      files: readonly { path: string }[]
    }[]
    // Size on disk: at most 70 MB with the CPU engine, 30 MB without it (docs/dependencies.md).
    expect(list[0]?.unpackedSize).toBeLessThan(12_500_000)
    const paths = (list[0]?.files ?? []).map(({ path }) => path)
    const doors = Object.values(manifest.exports).flatMap((door) =>
      typeof door === 'string' ? [door] : Object.values(door as Record<string, string>),
    )
    for (const path of [...doors, 'dist/bin/baton.js', 'models/storyteller/storyteller-q8_0.gguf'])
      expect(paths).toContain(path.replace('./', ''))
    expect(
      paths.filter((path) => /\.test\.|tsbuildinfo|^(src|test|bench|dist\/cli|\.)/.test(path)),
    ).toEqual([])
    const modules = join(folder, 'node_modules')
    const installed = join(modules, 'baton-llm')
    mkdirSync(installed, { recursive: true })
    const tar = join(folder, list[0]?.filename ?? '')
    expect(spawnSync('tar', ['xzf', tar, '-C', installed, '--strip-components=1']).status).toBe(0)
    // Only what npm installs with it, and what the examples need to run.
    for (const name of [...installedNames(), 'tsx', 'esbuild', '@esbuild', 'get-tsconfig'])
      linkModule(name, modules)
    expect(existsSync(join(modules, 'yaml'))).toBe(false)
    expect(missingTypes(installed)).toEqual([])
    for (const [example, says] of [
      ['scorer.ts', 'worker 3: filtered: under repair'],
      ['embedded.ts', '"finish_reason":"length"'],
    ] as const) {
      const path = join('node_modules/baton-llm/examples', example)
      const { code, printed } = await run(folder, ['--import', 'tsx', path])
      expect(printed).toContain(says)
      expect(code).toBe(0)
    }
  })

  it('bundled files - have only ASCII characters, because others double the memory of their text', () => {
    const files = ['dist/bin', 'dist/lib'].flatMap((folder) =>
      readdirSync(join(ROOT, folder))
        .filter((name) => name.endsWith('.js'))
        .map((name) => join(folder, name)),
    )
    expect(files.length).toBeGreaterThan(20)
    const others = files.filter((file) =>
      /[\u0080-\uffff]/.test(readFileSync(join(ROOT, file), 'utf8')),
    )
    expect(others).toEqual([])
  })

  it('dependencies, installed or bundled - each has its reason in the docs, and its licence is included', () => {
    const page = readFileSync(join(ROOT, 'docs/dependencies.md'), 'utf8')
    for (const name of Object.keys(manifest.dependencies)) expect(page).toContain(`\`${name}\``)
    const notices = readFileSync(join(ROOT, 'dist/THIRD-PARTY-NOTICES.txt'), 'utf8')
    const inside = Object.keys(manifest.devDependencies).filter((name) =>
      notices.includes(`\n${name} ${manifest.devDependencies[name]} (`),
    )
    expect(inside).toContain('msgpackr')
    for (const name of inside) expect(page).toContain(`\`${name}\``)
    expect(notices).toMatch(/\nmsgpackr 2[^-]*Permission is hereby granted/)
  })

  it('without the platform package - the simulated engine serves, llama.cpp says what to install', async () => {
    const folder = withoutPackages('llama')
    const main = join(folder, 'dist/bin/baton.js')
    const sim = await run(
      folder,
      [main, 'serve', '--engine', 'sim', '--port', '0'],
      'Ctrl-C drains',
    )
    expect(sim).toMatchObject({ code: 0, printed: expect.stringContaining('serves storyteller') })
    const llama = await run(folder, [main, 'serve', '--port', '0', '--aggregated', '1'])
    expect(llama.code).toBe(1)
    expect(llama.printed).toMatch(/^baton: .*npm i @node-llama-cpp\//)
  })

  it('without OpenTelemetry - --otlp-endpoint says which tested versions to install', async () => {
    const folder = withoutPackages('opentelemetry')
    // A dependency of prom-client.
    mkdirSync(join(folder, 'node_modules/@opentelemetry'))
    const api = 'node_modules/@opentelemetry/api'
    symlinkSync(join(ROOT, api), join(folder, api))
    const args = [
      'serve',
      '--engine',
      'sim',
      '--port',
      '0',
      '--otlp-endpoint',
      'http://127.0.0.1:1',
    ]
    const { code, printed } = await run(folder, [join(folder, 'dist/bin/baton.js'), ...args])
    expect(code).toBe(2)
    const wanted = Object.entries(manifest.devDependencies)
      .filter(([name]) => name.startsWith('@opentelemetry/'))
      .map(([name, version]) => `${name}@${version}`)
    expect(printed).toContain(`npm i ${wanted.join(' ')}`)
  })
})
