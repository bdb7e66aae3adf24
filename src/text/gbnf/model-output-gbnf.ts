/**
 * The grammar of a model's whole output: reasoning, then either tool calls in the model's notation, or the answer.
 *
 * Only the answer and the JSON of a call are constrained. So a reasoning model can think first, and a model with
 * tools can call one before it answers.
 */
import { gbnfText } from './gbnf-literal.ts'
import { textUntil } from './text-until.ts'

export interface ThoughtForm {
  readonly opens: readonly string[]
  readonly closes: readonly string[]
  /** The prompt already contains the opening tag. */
  readonly isInside: boolean
  /** The text before an answer and before a call, for example the channel header of harmony. */
  readonly answerHead?: string
}

export interface CallForm {
  readonly open: string
  /** Null: the call ends with the output. */
  readonly close: string | null
  /** True: the call is one JSON object, which is constrained to the schemas of the tools. False: any text. */
  readonly isJson: boolean
}

export interface ModelOutputForm {
  readonly thought: ThoughtForm | null
  /** Empty: no tool may be called. */
  readonly calls: readonly CallForm[]
  readonly allowsSeveralCalls: boolean
}

const ANY_TEXT = String.raw`[^\x00]*`
const GAP = String.raw`gap ::= [ \n]{0,2}` + '\n'

/** `answer` and `call` are complete grammars; `call` is the JSON of one call. */
export function modelOutputGrammar(answer: string, call: string, form: ModelOutputForm): string {
  const { thought, calls } = form
  const rules = [GAP, prefixedRules(answer, 'answer-')]
  const head = thought?.answerHead
  let root = head === undefined ? 'answer-root' : `${gbnfText(head)} answer-root`
  if (calls.length > 0) {
    root = `( ${root} | calls )`
    rules.push(...callRules(call, form))
  }
  if (thought !== null) {
    rules.push(textUntil('thought', thought.closes))
    const open = `( ${thought.opens.map(gbnfText).join(' | ')} )`
    // A model may repeat the opening tag; inside reasoning it is ordinary text.
    root = thought.isInside ? `thought gap ${root}` : `( ${open} thought gap )? ${root}`
  }
  return `root ::= ${root}\n${rules.join('')}`
}

/** The grammar of the constrained calls alone; null if none of them is constrained. */
export function callGrammar(call: string, form: ModelOutputForm): string | null {
  const calls = form.calls.filter(({ isJson }) => isJson)
  if (calls.length === 0) return null
  return ['root ::= calls\n', GAP, ...callRules(call, { ...form, calls })].join('')
}

function callRules(call: string, { calls, allowsSeveralCalls }: ModelOutputForm): string[] {
  const rules: string[] = []
  const options = calls.map(({ open, close, isJson }, index) => {
    if (isJson)
      return `${gbnfText(open)} gap call-root gap ${close === null ? '' : gbnfText(close)}`
    if (close === null) return `${gbnfText(open)} ${ANY_TEXT}`
    rules.push(textUntil(`until-${index}`, [close]))
    return `${gbnfText(open)} until-${index}`
  })
  if (calls.some(({ isJson }) => isJson)) rules.push(prefixedRules(call, 'call-'))
  const more = allowsSeveralCalls ? ' ( gap one-call )*' : ''
  return [`calls ::= one-call${more}\n`, `one-call ::= ${options.join(' | ')}\n`, ...rules]
}

/** A literal, a character class or a comment, which stay unchanged; or the name of a rule. */
const PIECE = /"(?:[^"\\]|\\[^])*"|\[(?:[^\]\\]|\\[^])*\]|#[^\n]*|\{[^}]*\}|[a-zA-Z][a-zA-Z0-9-]*/g

/** The same grammar with prefixed rule names, so that two grammars can be combined. */
function prefixedRules(gbnf: string, prefix: string): string {
  const rules = gbnf.replace(PIECE, (piece) => (/^[a-zA-Z]/.test(piece) ? prefix + piece : piece))
  return rules.endsWith('\n') ? rules : `${rules}\n`
}
