/** Room `text`: text ↔ tokens: tokenizers, chat template, detokeniser, stop strings. */
export type { Tokenizer } from './tokenizer.ts'
