/**
 * Types for the parts of `@huggingface/tokenizers` that are used here. The package's own declarations use imports
 * without extensions, which do not resolve under `nodenext`.
 */
import * as library from '@huggingface/tokenizers'

type Normalizer = (text: string) => string
type PreTokenizer = (text: string, options: { readonly section_index: number }) => string[]
interface Model {
  (pieces: readonly string[]): string[]
  readonly tokens_to_ids: ReadonlyMap<string, number>
  readonly unk_token_id?: number
}

export interface LibraryPipeline {
  readonly normalizer: Normalizer | null
  readonly pre_tokenizer: PreTokenizer | null
  readonly model: Model
  get_vocab(): ReadonlyMap<string, number>
}

interface Library {
  readonly Tokenizer: new (json: object, config: object) => LibraryPipeline
  readonly SplitPreTokenizer: new (config: object) => { readonly pattern: unknown }
}

const { Tokenizer, SplitPreTokenizer } = library as unknown as Library

export function libraryPipeline(json: object, config: object): LibraryPipeline {
  return new Tokenizer(json, config)
}

/** Converts a pattern in Oniguruma syntax to the JavaScript expression that cuts at the same positions. */
export function compilePattern(pattern: string): RegExp {
  const split = new SplitPreTokenizer({
    type: 'Split',
    pattern: { Regex: pattern },
    behavior: 'Isolated',
    invert: false,
  })
  if (!(split.pattern instanceof RegExp)) throw new Error(`cannot compile the pattern ${pattern}`)
  return split.pattern
}
