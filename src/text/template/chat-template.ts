/**
 * The Jinja chat template of a model, compiled once and rendered per request; the library interprets what the
 * compiler does not support. Remembers which message form the template accepted.
 */
import { Template } from '@huggingface/jinja'
import { BatonError, messageOf } from '../../base/index.ts'
import { compileTemplate } from './compiled/compiled-template.ts'
import type { CompiledTemplate } from './compiled/compiled-template.ts'
import { standInsOf } from './integer-stand-ins.ts'
import { suggestedForm } from './message-form.ts'
import type { MessageForm } from './message-form.ts'
import { interpreter } from './python-rules.ts'

interface ChatTemplateOptions {
  readonly bosToken?: string
  readonly eosToken?: string
  /** The model's template for requests with tools (`tool_use`), if it has one of its own for them. */
  readonly toolUse?: string
}

export class ChatTemplate {
  readonly source: string
  /** The template for requests with tools: usually this one. */
  readonly forTools: ChatTemplate
  readonly #interpret: (variables: object) => string
  readonly #compiled: CompiledTemplate
  readonly #constants: Readonly<Record<string, unknown>>
  #form: MessageForm

  /** Throws `model.load_failed` if the template cannot be parsed. */
  constructor(source: string, options: ChatTemplateOptions = {}) {
    this.source = source
    const { toolUse, ...own } = options
    this.forTools = toolUse === undefined ? this : new ChatTemplate(toolUse, own)
    this.#constants = { bos_token: options.bosToken ?? '', eos_token: options.eosToken ?? '' }
    this.#form = suggestedForm(source)
    try {
      this.#interpret = interpreter(source)
      this.#compiled = compileTemplate(new Template(source).parsed.body)
    } catch (thrown) {
      throw new BatonError(
        'model.load_failed',
        `the model's chat template cannot be parsed: ${messageOf(thrown)}; repair it in tokenizer_config.json or give another`,
        { cause: thrown },
      )
    }
  }

  /** The message form to try first. */
  get form(): MessageForm {
    return this.#form
  }

  acceptsForm(form: MessageForm): void {
    this.#form = form
  }

  /** Renders the template. If it rejects the messages (`raise_exception`), the request is invalid. */
  render(variables: Readonly<Record<string, unknown>>): string {
    // Faster than two spreads: the second would call into the runtime per member.
    const all = Object.assign({}, this.#constants, variables)
    try {
      return this.#compiled(all) ?? this.#interpreted(all)
    } catch (thrown) {
      throw new BatonError(
        'request.invalid_argument',
        `the model's chat template does not accept these messages: ${messageOf(thrown)}`,
        { cause: thrown },
      )
    }
  }

  /** The interpreter does not support bigint: it gets a placeholder text, which is replaced by the digits afterwards. */
  #interpreted(all: Readonly<Record<string, unknown>>): string {
    const stand = standInsOf(all)
    if (stand === null) return this.#interpret(all)
    return this.#interpret(stand.values).replace(stand.pattern, '$1')
  }
}
