/**
 * What Baton passes to a module named by `--engine ./mine.js`: its default export is a function, or a class whose
 * constructor, takes this.
 */
import type { Clock } from '../base/index.ts'
import type { DisaggregationMode } from '../request/index.ts'

export interface UserEngineOptions {
  readonly mode: DisaggregationMode
  /** `--model`, or the model that ships with Baton: where frontends find tokenizer and chat template. */
  readonly modelPath: string
  /** `--served-model-name`; overrides the engine's own name. */
  readonly servedModelName?: string
  readonly contextLength?: number
  /** `--sequences`: number of requests that one worker should run concurrently. */
  readonly sequences: number
  /** `--engine-args`, the object as given. */
  readonly args: Readonly<Record<string, unknown>>
  readonly clock: Clock
}
