/**
 * What Baton hands to a module that `--engine ./mine.js` names: its default export is a function of this, or a class whose
 * constructor takes it.
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
  /** `--sequences`: requests that one worker should compute at once. */
  readonly sequences: number
  /** `--engine-args`, the object as it was given. */
  readonly args: Readonly<Record<string, unknown>>
  readonly clock: Clock
}
