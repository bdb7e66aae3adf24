/**
 * The settings of the playground: model, sampling, tools, a schema of the answer.
 */
import { h } from '../data/dom.ts'

const TOOLS_HINT = '[{"type":"function","function":{"name":"get_weather","parameters":{…}}}]'
const SCHEMA_HINT = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'

export class ChatSettings {
  readonly #model = h('select', { id: 'chat-model' })
  readonly #system = h('textarea', { id: 'chat-system', rows: 2 })
  readonly #temperature = numberField('chat-temperature', { min: 0, max: 2, step: 0.1 })
  readonly #topP = numberField('chat-top-p', { min: 0, max: 1, step: 0.05 })
  readonly #maxTokens = numberField('chat-max-tokens', { min: 1, step: 1, value: 256 })
  readonly #seed = numberField('chat-seed', { step: 1 })
  readonly #tools = h('textarea', { id: 'chat-tools', rows: 3, placeholder: TOOLS_HINT })
  readonly #schema = h('textarea', { id: 'chat-schema', rows: 3, placeholder: SCHEMA_HINT })
  readonly element = h(
    'fieldset',
    { class: 'settings' },
    h('legend', {}, 'Settings'),
    labelled('Model', this.#model),
    labelled('System prompt', this.#system),
    labelled('Temperature', this.#temperature),
    labelled('Top p', this.#topP),
    labelled('Max tokens', this.#maxTokens),
    labelled('Seed', this.#seed),
    h(
      'details',
      {},
      h('summary', {}, 'Tools and schema'),
      labelled('Tools (JSON)', this.#tools),
      labelled('Answer follows this JSON schema', this.#schema),
    ),
  )

  showModels(names: readonly string[]): void {
    const known = [...this.#model.options].map(({ value }) => value)
    if (known.join() === names.join()) return
    const chosen = this.#model.value
    this.#model.replaceChildren(...names.map((name) => h('option', { value: name }, name)))
    if (names.includes(chosen)) this.#model.value = chosen
  }

  get system(): string {
    return this.#system.value.trim()
  }

  /** The fields of the body except the messages. Throws when a JSON field is invalid. */
  fields(): Record<string, unknown> {
    const tools = json('Tools', this.#tools.value)
    const schema = json('The schema', this.#schema.value)
    return {
      ...(this.#model.value === '' ? {} : { model: this.#model.value }),
      ...numbers({
        temperature: this.#temperature,
        top_p: this.#topP,
        max_tokens: this.#maxTokens,
        seed: this.#seed,
      }),
      ...(tools === undefined ? {} : { tools }),
      ...(schema === undefined
        ? {}
        : { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } } }),
    }
  }
}

function numberField(id: string, attributes: Readonly<Record<string, number>>): HTMLInputElement {
  return h('input', { id, type: 'number', ...attributes })
}

function labelled(text: string, field: HTMLElement): HTMLElement {
  return h('label', { for: field.id }, text, field)
}

function numbers(fields: Readonly<Record<string, HTMLInputElement>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, { value }]) => value !== '')
      .map(([name, { value }]) => [name, Number(value)]),
  )
}

function json(what: string, text: string): unknown {
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`${what}: ${error instanceof Error ? error.message : 'invalid JSON'}`)
  }
}
