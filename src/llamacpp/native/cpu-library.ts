/**
 * Chooses among the shipped CPU libraries: the best one that this CPU supports, unless the model's head size is not
 * on its fast path.
 *
 * The choice depends only on the CPU and the model, never on a measurement, because two workers on such machines
 * must compute the same bits. There is one library per process; the first model decides.
 */
import { join } from 'node:path'
import { BatonError } from '../../base/index.ts'
import { ffi } from './ffi.ts'
import type { Library } from './ffi.ts'
import type { LibraryFiles } from './library-files.ts'
import type { Pointer, ThreadPoolApi } from './llama-structs.ts'

/** Elements of one head of K and of V; undefined: not known. */
export interface HeadShape {
  readonly keyLength: number | undefined
  readonly valueLength: number | undefined
}

interface CpuLibrary {
  readonly name: string
  readonly threadPool: ThreadPoolApi | null
}

/**
 * Elements of 16 bits that a dot product processes at once with AVX-512; a head whose size is no multiple is
 * computed element by element.
 */
const WIDE_STEP = 64
/** Libraries without AVX-512, the best first. */
const NARROW = ['alderlake', 'haswell']

/** Loads the library, or all backends for a GPU. Throws `model.load_failed`. */
export function loadCpuLibrary(ggml: Library, files: LibraryFiles, heads: HeadShape): CpuLibrary {
  const registered = ggml.func('void* ggml_backend_reg_by_name(const char*)') as (
    name: string,
  ) => Pointer
  if (files.isGpu) {
    if (registered('CPU') === null) {
      const loadAll = ggml.func('void ggml_backend_load_all_from_path(const char*)') as (
        folder: string,
      ) => void
      loadAll(files.folder)
    }
    return { name: 'gpu', threadPool: null }
  }
  const file = bestFile(files, heads)
  if (registered('CPU') === null) {
    const load = ggml.func('void* ggml_backend_load(const char*)') as (path: string) => Pointer
    if (load(join(files.folder, file)) === null)
      throw new BatonError('model.load_failed', `llama.cpp's CPU library ${file} cannot be loaded`)
  }
  return { name: nameOf(file), threadPool: threadPoolOf(join(files.folder, file)) }
}

function bestFile(files: LibraryFiles, heads: HeadShape): string {
  const { folder, cpu } = files
  const ranked = cpu
    .map((file) => ({ file, name: nameOf(file), score: scoreOf(join(folder, file)) }))
    .filter(({ score }) => score > 0 || cpu.length === 1)
    .sort((a, b) => b.score - a.score)
  const [best] = ranked
  if (best === undefined)
    throw new BatonError('model.load_failed', 'no CPU library of llama.cpp supports this CPU')
  if (isNarrow(heads) && !NARROW.includes(best.name) && process.arch === 'x64') {
    for (const name of NARROW) {
      const narrow = ranked.find((each) => each.name === name)
      if (narrow !== undefined) return narrow.file
    }
  }
  return best.file
}

function isNarrow({ keyLength, valueLength }: HeadShape): boolean {
  return [keyLength, valueLength].some((length) => length !== undefined && length % WIDE_STEP !== 0)
}

/** 0: this CPU does not support it. */
function scoreOf(path: string): number {
  try {
    const library = ffi.load(path)
    const score = library.func('int ggml_backend_score()') as () => number
    const value = score()
    if (value <= 0) library.unload()
    return value
  } catch {
    return 0
  }
}

function threadPoolOf(path: string): ThreadPoolApi | null {
  try {
    const library = ffi.load(path)
    return {
      create: library.func('void* ggml_threadpool_new(void*)') as ThreadPoolApi['create'],
      free: library.func('void ggml_threadpool_free(void*)') as ThreadPoolApi['free'],
    }
  } catch {
    return null
  }
}

/** `libggml-cpu-haswell.so` → `haswell`. */
function nameOf(file: string): string {
  return /ggml-cpu-([a-z0-9_.]+?)\.(?:so|dylib|dll)$/.exec(file)?.[1] ?? ''
}
