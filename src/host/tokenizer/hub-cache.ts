/**
 * Finds a model that is named as on the Hugging Face hub (`org/name`) in the hub's cache on this machine.
 *
 * `vllm serve org/name` reports that name as its model's place, and its files are in this cache when vLLM runs on the
 * same machine. Nothing is downloaded.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'

const HUB_NAME = /^(?:[\w-][\w.-]*\/)?[\w-][\w.-]*$/
const REVISION = /^[\w-]+$/

/** The folder of `model` in the cache; `model` itself if it is a path that exists, or is not in the cache. */
export function localModelPath(
  model: string,
  environment: Readonly<NodeJS.ProcessEnv> = process.env,
): string {
  if (!HUB_NAME.test(model) || existsSync(model)) return model
  const folder = path.join(hubCacheFolder(environment), `models--${model.replace('/', '--')}`)
  try {
    return snapshotIn(folder) ?? model
  } catch {
    // No such model, or the cache cannot be read.
    return model
  }
}

/** The name on the hub of the model whose snapshot is in this folder; null: it is not a folder of the cache. */
export function hubNameOf(folder: string): string | null {
  const [name] = /(?<=\/models--)[^/]+(?=\/snapshots\/[^/]+$)/.exec(path.resolve(folder)) ?? []
  return name?.replace('--', '/') ?? null
}

/** The same variables in the same order as the Python library `huggingface_hub`. */
function hubCacheFolder(environment: Readonly<NodeJS.ProcessEnv>): string {
  const given = environment['HF_HUB_CACHE'] || environment['HUGGINGFACE_HUB_CACHE']
  if (given) return given
  const cache = environment['XDG_CACHE_HOME'] || path.join(homedir(), '.cache')
  return path.join(environment['HF_HOME'] || path.join(cache, 'huggingface'), 'hub')
}

/** The revision `main`, which servers load by default, or the only one. */
function snapshotIn(folder: string): string | null {
  const snapshots = path.join(folder, 'snapshots')
  const main = path.join(folder, 'refs', 'main')
  const names = readdirSync(snapshots)
  const wanted = existsSync(main)
    ? readFileSync(main, 'utf8').trim()
    : names.length === 1
      ? names[0]
      : undefined
  if (wanted === undefined || !REVISION.test(wanted)) return null
  const found = path.join(snapshots, wanted)
  return statSync(found).isDirectory() ? found : null
}
