/**
 * Finds llama.cpp's libraries in the platform package that is installed for this system.
 *
 * Owns: names of packages and files, the pinned version. Does not load anything.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { BatonError } from '../../base/index.ts'

/** The version of the platform packages whose libraries `llama-api.ts` describes. */
export const PACKAGE_VERSION = '3.21.1'

export type GpuChoice = false | 'auto' | 'cuda' | 'vulkan' | 'metal'

export interface LibraryFiles {
  readonly folder: string
  /** Libraries that must be loaded first, in order; the last is llama.cpp itself. */
  readonly base: string
  readonly ggml: string
  readonly llama: string
  /** One per kind of CPU, or a single one. */
  readonly cpu: readonly string[]
  /** True: all backends are loaded instead of one CPU library. */
  readonly isGpu: boolean
}

const ARCHITECTURES: Readonly<Record<string, string>> = { arm: 'armv7l' }
const SYSTEMS: Readonly<Record<string, string>> = { win32: 'win', darwin: 'mac' }

interface Packages {
  readonly cpu: string
  readonly gpu: Readonly<Partial<Record<Exclude<GpuChoice, boolean | 'auto'>, string>>>
}

const CUDA_AND_VULKAN = (platform: string): Packages => ({
  cpu: platform,
  gpu: { cuda: `${platform}-cuda`, vulkan: `${platform}-vulkan` },
})

/** The packages that are published, by platform. GPU variants are in the order in which `auto` tries them. */
const PACKAGES: Readonly<Record<string, Packages>> = {
  'linux-x64': CUDA_AND_VULKAN('linux-x64'),
  'linux-arm64': { cpu: 'linux-arm64', gpu: {} },
  'linux-armv7l': { cpu: 'linux-armv7l', gpu: {} },
  'win-x64': CUDA_AND_VULKAN('win-x64'),
  'win-arm64': { cpu: 'win-arm64', gpu: {} },
  'mac-x64': { cpu: 'mac-x64', gpu: {} },
  'mac-arm64': { cpu: 'mac-arm64-metal', gpu: { metal: 'mac-arm64-metal' } },
}

interface Platform {
  readonly system: string
  readonly architecture: string
}

const THIS_PLATFORM: Platform = { system: process.platform, architecture: process.arch }

/** Throws `model.load_failed` and says what to install. */
export function findLibraries(gpu: GpuChoice): LibraryFiles {
  const wanted = packagesFor(gpu, THIS_PLATFORM)
  for (const name of wanted) {
    const root = packageRoot(name)
    if (root !== undefined) return filesIn(name, root, gpu !== false)
  }
  const what = wanted.map((name) => `\`npm i ${name}@${PACKAGE_VERSION}\``).join(' or ')
  throw new BatonError(
    'model.load_failed',
    gpu === false
      ? `the llama.cpp engine is not installed for ${process.platform} ${process.arch}: run ${what}, or use --engine sim`
      : `no llama.cpp for --gpu ${gpu} is installed: run ${what} and install the drivers, or use --gpu off`,
  )
}

/** In the order in which they are tried. Throws `model.load_failed` when none is published for the platform. */
export function packagesFor(gpu: GpuChoice, { system, architecture }: Platform): string[] {
  const platform = `${SYSTEMS[system] ?? system}-${ARCHITECTURES[architecture] ?? architecture}`
  const published = PACKAGES[platform]
  if (published === undefined)
    throw new BatonError(
      'model.load_failed',
      `llama.cpp is not available for ${system} ${architecture}: use --engine sim, or an upstream`,
    )
  const names = gpu === false ? [published.cpu] : variantsOf(published, gpu)
  if (names.length === 0) {
    const others = Object.keys(published.gpu)
    const instead = ['off', ...others].map((name) => `--gpu ${name}`).join(' or ')
    throw new BatonError(
      'model.load_failed',
      `llama.cpp for --gpu ${gpu} is not available for ${system} ${architecture}: use ${instead}`,
    )
  }
  return names.map((name) => `@node-llama-cpp/${name}`)
}

function variantsOf({ gpu }: Packages, wanted: Exclude<GpuChoice, false>): string[] {
  if (wanted === 'auto') return Object.values(gpu)
  const name = gpu[wanted]
  return name === undefined ? [] : [name]
}

function packageRoot(name: string): string | undefined {
  const require = createRequire(import.meta.url)
  for (const folder of require.resolve.paths(name) ?? []) {
    const root = join(folder, name)
    const version = versionOf(root)
    if (version === undefined) continue
    if (version === PACKAGE_VERSION) return root
    throw new BatonError(
      'model.load_failed',
      `${name} ${version} is installed, but this build needs ${PACKAGE_VERSION}: run \`npm i ${name}@${PACKAGE_VERSION}\``,
    )
  }
  return undefined
}

function versionOf(root: string): string | undefined {
  try {
    const text = readFileSync(join(root, 'package.json'), 'utf8')
    return (JSON.parse(text) as { version?: string }).version
  } catch {
    return undefined
  }
}

/** `libllama.v0.4.0.so`, `libllama.dylib`, `llama.dll`: the name up to a version, and the system's extension. */
const LIBRARY = /^(?:lib)?([a-z0-9_-]+?(?:armv[0-9._]+)?)(?:\.v?\d[\d.]*)?\.(?:so|dylib|dll)$/

function filesIn(name: string, root: string, isGpu: boolean): LibraryFiles {
  const bins = join(root, 'bins')
  const [variant = ''] = readdirSync(bins)
  const folder = join(bins, variant)
  const files = readdirSync(folder)
  const find = (library: string): string => {
    const file = files.find((each) => LIBRARY.exec(each)?.[1] === library)
    if (file !== undefined) return join(folder, file)
    throw new BatonError('model.load_failed', `${name} is damaged: ${library} is missing`)
  }
  return {
    folder: dirname(find('llama')),
    base: find('ggml-base'),
    ggml: find('ggml'),
    llama: find('llama'),
    cpu: files.filter((file) => LIBRARY.exec(file)?.[1]?.startsWith('ggml-cpu')).sort(),
    isGpu,
  }
}
