/**
 * Finds the tokenizer and the chat template of a worker's model for a frontend: at the path that the worker
 * names; when that path is on another machine or holds something else, in the copy given to this frontend with
 * `--model`; else in files that a worker of the model sends, which are kept in a cache folder on this machine.
 */
import { access } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { BatonError } from '../../base/index.ts'
import {
  fetchText,
  loadModelText,
  localModelPath,
  modelTextDigest,
  TextCacheFault,
} from '../../host/index.ts'
import type { LoadedModelText, TextSource } from '../../host/index.ts'
import { WorkerConversation } from '../../network/index.ts'
import { makeProcessFolder } from '../../os/index.ts'
import type { ProcessFolder } from '../../os/index.ts'
import {
  describeDifferences,
  modelDifferences,
  modelFactsOf,
  modelFilesKey,
} from '../../request/index.ts'
import type { ModelDifference, WorkerCard } from '../../request/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { BATON_VERSION } from './version.ts'
import type { wireSecurity } from '../guard/wire-security.ts'

/** Milliseconds for one connection or one piece, and for the whole transfer. */
const ANSWER_MS = 10_000
const TOTAL_MS = 120_000

/** `--model-cache`, or the user's cache folder. */
export function modelCacheFolder({ modelCache: given }: Pick<ServeConfig, 'modelCache'>): string {
  if (given !== null) return given
  const cache = process.env['XDG_CACHE_HOME']
  return join(cache === undefined || cache === '' ? join(homedir(), '.cache') : cache, 'baton')
}

export interface ModelPlacesOptions {
  readonly config: Pick<ServeConfig, 'isShippedModel' | 'model' | 'modelCache'>
  readonly security: ReturnType<typeof wireSecurity>
  /** Other workers with the same tokenizer and template, for when the first cannot be reached. */
  readonly cards: () => readonly WorkerCard[]
  /** Called when a fallback was used, with the reason. */
  readonly onProblem: (problem: string) => void
}

interface Found {
  readonly path: string
  readonly text: LoadedModelText
}

export class ModelPlaces {
  readonly #options: ModelPlacesOptions
  /** Keyed by the identity on the card: a path that was verified is not verified again. */
  readonly #paths = new Map<string, string>()
  /** Replaces a cache folder that cannot be used. */
  #ownFolder: ProcessFolder | null = null

  constructor(options: ModelPlacesOptions) {
    this.#options = options
  }

  /**
   * Returns a path whose tokenizer and template are the worker's. Rejects with `model.load_failed`, which says
   * what to do.
   */
  async place(card: WorkerCard): Promise<string> {
    return this.#paths.get(modelFilesKey(card)) ?? (await this.#remembered(card)).path
  }

  async text(card: WorkerCard): Promise<LoadedModelText> {
    const path = this.#paths.get(modelFilesKey(card))
    // A cleanup of temporary folders may have removed it since.
    const isKnown = path !== undefined && (await isThere(path))
    return isKnown ? await loadModelText(path) : (await this.#remembered(card)).text
  }

  close(): void {
    this.#ownFolder?.remove()
  }

  async #remembered(card: WorkerCard): Promise<Found> {
    const found = await this.#find(card)
    this.#paths.set(modelFilesKey(card), found.path)
    return found
  }

  async #find(card: WorkerCard): Promise<Found> {
    const { modelPath } = card.engine
    const { isShippedModel, model } = this.#options.config
    const places = [
      ...(modelPath === undefined ? [] : [modelPath]),
      ...(modelPath === undefined || !isShippedModel ? [localModelPath(model)] : []),
    ]
    let wrong: string | null = null
    for (const path of places) {
      if (!(await isThere(path))) continue
      try {
        const loaded = await loadModelText(path)
        const differences = differencesOf(card, loaded)
        if (differences.length === 0) return { path, text: loaded }
        wrong ??= `the model at ${path} differs from the workers' model: ${describeDifferences(differences)}`
      } catch (thrown) {
        // The folder is empty, incomplete or not readable; the worker has the complete files.
        wrong ??= BatonError.from(thrown).message
      }
    }
    if (card.text !== undefined) return await this.#fetched(card)
    const missing = `worker ${card.workerId} has its model at ${modelPath ?? 'no path'}, which cannot be read on this machine: start the frontend with --model and a copy (of a Hugging Face folder tokenizer.json, tokenizer_config.json and config.json are enough)`
    throw new BatonError('model.load_failed', wrong ?? missing)
  }

  async #fetched(card: WorkerCard): Promise<Found> {
    const { text } = card
    if (text === undefined)
      throw new BatonError('runtime.internal', 'the card has no checksum of its text')
    const others = this.#options
      .cards()
      .filter((other) => other.workerId !== card.workerId && other.text?.hash === text.hash)
    const sources = [card, ...others].map((source) => () => this.#open(source))
    const fetchInto = async (cache: string): Promise<string> =>
      await fetchText({ manifest: text, cache, sources, totalMs: TOTAL_MS })
    const cache = join(modelCacheFolder(this.#options.config), 'text')
    const path = await fetchInto(cache).catch(async (thrown: unknown) => {
      if (!(thrown instanceof TextCacheFault)) throw thrown
      return await fetchInto(this.#folderInsteadOf(thrown))
    })
    const loaded = await loadModelText(path)
    const differences = differencesOf(card, loaded)
    if (differences.length === 0) return { path, text: loaded }
    throw new BatonError(
      'model.load_failed',
      `the files that worker ${card.workerId} sends are not those of its model: ${describeDifferences(differences)}`,
    )
  }

  /** When the cache folder is read-only or full, a temporary folder is used instead. */
  #folderInsteadOf(fault: TextCacheFault): string {
    try {
      this.#ownFolder ??= makeProcessFolder(tmpdir(), 'baton-text-')
    } catch {
      throw fault
    }
    const { path } = this.#ownFolder
    this.#options.onProblem(
      `${fault.message}; until this process ends the files are kept in ${path}`,
    )
    return path
  }

  async #open({ host, port }: WorkerCard): Promise<TextSource> {
    const conversation = await WorkerConversation.open({
      host,
      port,
      software: `baton ${BATON_VERSION}`,
      ...this.#options.security,
      timeoutMs: ANSWER_MS,
    })
    return {
      ask: (question) => conversation.ask('text', question),
      close: () => conversation.close(),
    }
  }
}

function differencesOf(
  { engine, agreement }: WorkerCard,
  text: LoadedModelText,
): readonly ModelDifference[] {
  const { model } = engine
  return modelDifferences(
    modelFactsOf({ engine: { model }, ...(agreement && { agreement }) }),
    modelFactsOf({ engine: { model }, agreement: modelTextDigest(text) }),
  )
}

async function isThere(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}
